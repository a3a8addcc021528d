"""The fake slurmrestd of the operator's tests: the few calls that the operator makes, over a fake slurmctld.

Statuses, shapes and errors are those that slurmrestd 26.05.5 gave (recorded/answers.json). test_slurmrestd_document.py
holds both against recorded/openapi-v0.0.45.json, cut from the document that the same slurmrestd serves at /openapi/v3.
"""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import jwt
import pytest
from slurm_operator.clients.slurm.slurm_error import SlurmError, Trouble

from tests.operator.fakes import fake_accounts
from tests.operator.fakes.fake_reservations import ReservationError, moment
from tests.operator.fakes.fake_slurm import NEVER, FakeSlurm

API = "/slurm/v0.0.45"
ACTIVE_FEATURES, NOT_SUBSET = 2031, "Active features not subset of available features"


def error(description: str, number: int, text: str) -> dict[str, Any]:
    """The body of an answer with an error."""
    return {
        "errors": [{"description": description, "error_number": number, "error": text, "source": "fake"}],
        "warnings": [],
    }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    slurm: FakeSlurm

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def do_DELETE(self) -> None:
        self._serve("DELETE")

    def _serve(self, method: str) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length)) if length else None
        url = urlsplit(self.path)
        path = unquote(url.path.removeprefix(API))
        slurm = self.slurm
        fault = slurm.fault
        if fault in ("refuse", "hang", "drip"):
            if fault == "drip":
                self._drip()
            elif fault == "hang":
                slurm.wait_released()
            self.close_connection = True
            return None
        user = self._user()
        with slurm.lock:
            slurm.calls.append((method, path))
            if user is None or fault == "unauthorized":
                return self._send(401, b"Authentication failure", "text/plain")
            if fault == "slurmctld away":
                away = "Unable to contact slurm controller (connect failure)"
                return self._answer(502, error("Failure to query nodes", 1800, away))
            if fault == "cut off":
                return self._answer(500, error("Failure to query nodes", 5005, "Zero bytes were sent or received"))
            if fault == "errors in 200":
                return self._answer(200, error("Failure to query nodes", 2, "Something odd"))
            if fault == "garbage":
                return self._send(200, b"<html>it works!</html>", "text/html")
            status, answer = self._do(method, path, parse_qs(url.query), body, user)
        if fault == "no list":
            answer.pop("nodes", None)
            answer.pop("jobs", None)
        encoded = json.dumps(answer).encode()
        if fault == "half":
            encoded = encoded[: len(encoded) // 2]
        return self._send(status, encoded if status != 304 else b"", "application/json")

    def _drip(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "100000")
        self.end_headers()
        with contextlib.suppress(OSError):
            while self.slurm.fault == "drip":
                self.wfile.write(b" ")
                self.wfile.flush()
                time.sleep(0.1)  # The fault itself: an answer that never ends.

    def _do(
        self, method: str, path: str, query: dict[str, list[str]], body: dict[str, Any] | None, user: str
    ) -> tuple[int, dict[str, Any]]:
        slurm = self.slurm
        fine: dict[str, Any] = {"errors": [], "warnings": []}
        stamp = moment(slurm.last_update)
        if (method, path) == ("GET", "/reconfigure/"):
            slurm.on_reconfigure()
            return 200, fine
        if (method, path) == ("GET", "/conf"):
            shown = {"SlurmctldParameters": slurm.parameters, "CommunicationParameters": slurm.communication}
            shown["SelectTypeParameters"] = ["CR_CORE_MEMORY"] if slurm.memory else ["CR_CORE"]
            return 200, {"slurm_conf": shown, "slurm_conf_meta": {"BOOT_TIME": slurm.started}, **fine}
        if path == "/slurmdb/v0.0.45/users/":
            slurm.levels |= {each["name"]: each["administrator_level"][0] for each in (body or {"users": []})["users"]}
            users = [{"name": name, "administrator_level": [level]} for name, level in slurm.levels.items()]
            return 200, {**({} if body else {"users": users}), **fine}
        if (part := fake_accounts.answer(slurm.qos, method, path, body)) is not None:
            return 200, {**part, **fine}
        if path.startswith("/partition"):
            return self._partition(path, body)
        if (method, path) == ("GET", "/reservations/"):
            return 200, {"reservations": [*slurm.reservations.values()], "last_update": stamp, **fine}
        if path.startswith("/reservation"):
            return self._reservation(path, body)
        if (method, path) == ("GET", "/diag/"):
            pending = sum(job["job_state"] == ["PENDING"] for job in slurm.jobs.values())
            counts = {
                "jobs_pending": pending + slurm.deep,
                "jobs_running": len(slurm.jobs) - pending,
                "job_states_ts": stamp,
                "req_time": moment(int(time.time() - slurm.behind)),
            }
            return 200, {"statistics": counts, **fine}
        if slurm.jobs_fail and path.startswith("/jobs/"):
            return 500, error("Failure to query jobs", 9000, "Something odd")
        if (method, path) == ("GET", "/jobs/state/"):
            states = [{"job_id": str(job["job_id"]), "state": job["job_state"]} for job in slurm.jobs.values()]
            return 200, {"jobs": states, **fine}
        if (method, path) == ("POST", "/job/submit"):
            return 200, {"job_id": slurm.submit((body or {})["job"]), "step_id": "batch", **fine}
        if method == "POST" and path.startswith("/job/"):
            slurm.jobs[int(path.removeprefix("/job/"))] |= body or {}
            return 200, {"results": [], **fine}
        if path.startswith("/job/"):
            job = slurm.jobs.get(int(path.removeprefix("/job/")))
            if job is None:
                return 404, error("Unable to query JobId=" + path[5:], 2017, "Invalid job id specified")
            return 200, {"jobs": [job], "last_backfill": NEVER, "last_update": stamp, **fine}
        if (method, path) == ("GET", "/nodes/"):
            # slurmctld's own test, with its resolution of a second.
            if "update_time" in query and int(query["update_time"][0]) - 1 >= slurm.last_update:
                slurm.not_modified += 1
                return 304, {}
            return 200, {"nodes": [*map(slurm.shown, slurm.nodes.values())], "last_update": stamp, **fine}
        name = path.removeprefix("/node/")
        record = slurm.nodes.get(name)
        if method == "GET":
            if record is None:
                return 200, error(f"Failure to query node {name}", 0, "No error")
            return 200, {"nodes": [slurm.shown(record)], "last_update": stamp, **fine}
        verb = "delete" if method == "DELETE" else "update"
        if record is None:
            return 422, error(f"Failure to {verb} node {name}", 2018, "Invalid node name specified")
        if method == "DELETE":
            reserved = name in slurm.kept or "RESERVED" in slurm.shown(record)["state"]
            if reserved or record["alloc_cpus"] or record["state"][0] in ("MIXED", "ALLOCATED"):
                return 422, error(f"Failure to delete node {name}", 2016, "Requested nodes are busy")
            del slurm.nodes[name]
        elif body and body.get("state") == ["DRAIN"]:
            slurm.drain(name, body.get("reason", ""), user)
        elif body and body.get("state") == ["DOWN"]:
            slurm.take_down(name, body["reason"], user)
        elif body and [*body] == ["reason"]:
            record["reason"], record["reason_set_by_user"] = body["reason"], user
        elif body and "comment" in body:
            record["comment"] = body["comment"]
        elif body and body.keys() & {"features", "weight", "topology_str"}:
            features = body.get("features", record["features"])
            # As slurmctld's update_node: active features are a part of the node's, and become all of them.
            if not {*body.get("features_act", record["active_features"])} <= {*features}:
                return 422, error(f"Failure to update node {name}", ACTIVE_FEATURES, NOT_SUBSET)
            record["features"] = features
            record["active_features"] = body.get("features_act", features)
            record["weight"] = body.get("weight", {"number": record["weight"]})["number"]
            record["topology"] = body.get("topology_str", record["topology"])
        elif body and body.get("state") == ["UNDRAIN"]:
            record["state"] = [flag for flag in record["state"] if flag != "DRAIN"]
            record["reason"] = record["reason_set_by_user"] = ""
        else:
            return 422, error(f"Failure to update node {name}", 2004, "Invalid node state specified")
        slurm._changed()
        return 200, fine

    def _reservation(self, path: str, body: dict[str, Any] | None) -> tuple[int, dict[str, Any]]:
        slurm = self.slurm
        slurm._changed()
        fine: dict[str, Any] = {"errors": [], "warnings": []}
        try:
            if body is None:
                slurm.reservations.delete(path.removeprefix("/reservation/"))
                return 200, fine
            slurm.reservations.write(body, slurm.nodes)
            return 200, {"reservations": [body], **fine}
        except ReservationError as refused:
            return 422, error(refused.where, refused.number, refused.words)

    def _partition(self, path: str, body: dict[str, Any] | None) -> tuple[int, dict[str, Any]]:
        slurm = self.slurm
        fine: dict[str, Any] = {"errors": [], "warnings": []}
        if body is not None:
            for each in body["partitions"]:
                slurm.partitions[each["name"]] = each["partition"]["state"][0]
            return 200, fine
        stamp = moment(slurm.last_update)
        if path == "/partitions/":
            listed = [{"name": name, "partition": {"state": [state]}} for name, state in slurm.partitions.items()]
            return 200, {"partitions": listed, "last_update": stamp, **fine}
        name = path.removeprefix("/partition/")
        if name not in slurm.partitions:
            warning = {"description": f"Unable to find partition {name}", "source": "_partition_get"}
            return 200, {**fine, "warnings": [warning]}
        found = {"name": name, "partition": {"state": [slurm.partitions[name]]}}
        return 200, {"partitions": [found], "last_update": stamp, **fine}

    def _user(self) -> str | None:
        with contextlib.suppress(jwt.InvalidTokenError):
            token = self.headers.get("X-SLURM-USER-TOKEN", "")
            claims = jwt.decode(token, self.slurm.key, algorithms=["HS256"], options={"require": ["exp", "iat", "sun"]})
            return str(claims["sun"])
        return None

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        self._send(status, json.dumps(body).encode(), "application/json")

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def answer(
    slurm: FakeSlurm, method: str, path: str, query: Mapping[str, str], body: dict[str, Any] | None
) -> tuple[int, dict[str, Any]]:
    """Return the status and the body with which slurmrestd answers SlurmUser, without a connection."""
    handler = object.__new__(_Handler)
    handler.slurm = slurm
    slurm.calls.append((method, path))
    url = urlsplit(path)
    asked = {**parse_qs(url.query), **{name: [value] for name, value in query.items()}}
    return handler._do(method, url.path, asked, body, "slurm")


class FakeSlurmrestd:
    """Serves a FakeSlurm on a port of the loopback address; it can refuse connections for a while."""

    def __init__(self, slurm: FakeSlurm, tls: ssl.SSLContext | None = None) -> None:
        self.slurm = slurm
        self._tls = tls
        self._handler = type("Handler", (_Handler,), {"slurm": slurm})
        self._server: ThreadingHTTPServer | None = None
        self.port = 0
        self.listen()

    @property
    def url(self) -> str:
        """Base URL."""
        return f"https://localhost:{self.port}" if self._tls else f"http://127.0.0.1:{self.port}"

    def listen(self) -> None:
        """Accept connections, on the same port each time."""
        self.slurm.fail("")
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), self._handler)
        self._server.daemon_threads = True
        if self._tls:
            self._server.socket = self._tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def refuse(self) -> None:
        """Close the port, and connections that are open already at their next call."""
        self.slurm.fail("refuse")
        if self._server:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


@contextlib.contextmanager
def running(key: bytes, tls: ssl.SSLContext | None = None) -> Iterator[FakeSlurmrestd]:
    """Run a fake for a test, with TLS if it gets the server's side of it."""
    fake = FakeSlurmrestd(FakeSlurm(key), tls)
    try:
        yield fake
    finally:
        fake.refuse()


def raises(trouble: Trouble, match: str | None = None) -> pytest.RaisesExc[SlurmError]:
    """Expect one kind of trouble."""
    return pytest.raises(SlurmError, match=match, check=lambda error: error.reason is trouble)
