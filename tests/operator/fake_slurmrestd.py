"""The fake slurmrestd of the operator's tests: a small Slurm behind the few calls that the operator makes.

Statuses, shapes and errors are those that slurmrestd 26.05.5 gave (recorded/answers.json); test_slurmrestd.py holds
both against recorded/openapi-v0.0.45.json, cut from the document that the same slurmrestd serves at /openapi/v3.
"""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

import jwt
import pytest
from slurm_operator.clients import hostlist
from slurm_operator.clients.slurm_error import SlurmError, Trouble

API = "/slurm/v0.0.45"
_Silent = Literal["refuse", "hang", "drip"]
_Wrong = Literal["garbage", "half", "no list", "errors in 200", "slurmctld away", "cut off", "unauthorized"]
_NEVER = {"set": False, "infinite": False, "number": 0}
Fault = Literal["", _Silent, _Wrong]


class FakeSlurm:
    """slurmctld's records, and what was asked of it. Use it under its lock."""

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.lock = threading.RLock()
        self.nodes: dict[str, dict[str, Any]] = {}
        self.jobs: dict[int, dict[str, Any]] = {}
        self.reservations: dict[str, dict[str, Any]] = {}
        self.last_update = int(time.time())
        self.fault: Fault = ""
        self.partitions: dict[str, str] = {}
        self.levels: dict[str, str] = {"root": "Administrator"}
        self.parameters = ["enable_configless"]
        self.communication: list[str] = []
        self.started = int(time.time())
        self.on_reconfigure: Callable[[], None] = lambda: None
        self.calls: list[tuple[str, str]] = []
        self.not_modified = 0
        self.killed: list[int] = []
        self.deep = 0
        """So many more jobs wait, which nobody may list."""
        self.behind = 0
        """Seconds that slurmctld's clock is behind."""
        self.jobs_fail = False
        self.kept: set[str] = set()
        """Nodes whose records are not deleted."""
        self.memory = False
        """True if memory is a consumable resource, which a suspended job keeps."""
        self._released = threading.Event()

    def register(self, name: str, *, features: tuple[str, ...] = (), new: bool = False) -> None:
        """A slurmd says hello: a known node keeps its record, and its drain, one that says it is new starts drained."""
        with self.lock:
            known = self.nodes.get(name)
            held = [flag for flag in known["state"] if flag in ("DRAIN", "FAIL")] if known else ["DRAIN"] * new
            down = known is not None and "DOWN" in known["state"] and not held
            self.nodes[name] = {
                "name": name,
                "state": ["IDLE", *held, "DYNAMIC_NORM"],
                # ReturnToService=2 takes back that a node is DOWN, whoever said so.
                "reason": ("" if down else known["reason"]) if known else "pulumi-slurm:new" * new,
                "reason_set_by_user": ("" if down else known["reason_set_by_user"]) if known else "root" * new,
                "alloc_cpus": 0,
                "alloc_memory": 0,
                "comment": known["comment"] if known else "",
                "features": list(features),
                "partitions": ["main"],
                "version": "26.05.5",
                "weight": 100,
                "next_state_after_reboot": ["INVALID"],
                "reason_changed_at": _NEVER,
                "slurmd_start_time": {"set": True, "infinite": False, "number": int(time.time())},
            }
            self._changed()

    def lose(self, name: str) -> None:
        """The node's slurmd is gone: running jobs die with it."""
        with self.lock:
            for job in self.jobs.values():
                if name == job["nodes"] and job["job_state"] in (["RUNNING"], ["SUSPENDED"]):
                    job["job_state"] = ["NODE_FAIL"]
                    self.killed.append(job["job_id"])
            if name in self.nodes:
                record = self.nodes[name]
                held = [flag for flag in record["state"] if flag in ("DRAIN", "FAIL")]
                record["state"] = ["DOWN", *held, "DYNAMIC_NORM"]
            self._changed()

    def drain(self, name: str, reason: str, user: str) -> None:
        """Somebody drains a node."""
        with self.lock:
            record = self.nodes[name]
            # As Slurm does it: a drain ends FAIL, and without a reason that of before stays with its author.
            record["state"] = [*(flag for flag in record["state"] if flag not in ("DRAIN", "FAIL")), "DRAIN"]
            if reason:
                record["reason"], record["reason_set_by_user"] = reason, user
                record["reason_changed_at"] = {"set": True, "infinite": False, "number": int(time.time())}
            self._changed()

    def undrain(self, name: str) -> None:
        """Somebody lifts a drain."""
        with self.lock:
            record = self.nodes[name]
            record["state"] = [state for state in record["state"] if state != "DRAIN"]
            record["reason"], record["reason_set_by_user"] = "", ""
            self._changed()

    def take_down(self, name: str, reason: str, user: str) -> None:
        """Somebody sets a node DOWN: its jobs are requeued if they may be."""
        with self.lock:
            for job in self.jobs.values():
                if job["nodes"] == name and job["job_state"] in (["RUNNING"], ["SUSPENDED"], ["CONFIGURING"]):
                    job["job_state"] = ["PENDING"] if job["requeue"] else ["NODE_FAIL"]
                    job["nodes"] = "" if job["requeue"] else name
                    self.killed += [] if job["requeue"] else [job["job_id"]]
            record = self.nodes[name]
            record["alloc_cpus"], record["state"] = 0, ["DOWN", *record["state"][1:]]
            record["alloc_memory"] = 0
            record["reason"], record["reason_set_by_user"] = reason, user
            record["reason_changed_at"] = {"set": True, "infinite": False, "number": int(time.time())}
            self._changed()

    def reboot(self, name: str) -> None:
        """Somebody asks for `scontrol reboot` of an idle node: Slurm issues it, and adds its words to the reason."""
        with self.lock:
            record = self.nodes[name]
            record["state"] = ["DOWN", *record["state"][1:], "REBOOT_ISSUED"]
            record["reason"] = f"{record['reason'] or 'reboot requested'} : reboot issued"
            record["reason_set_by_user"] = "slurm"
            record["reason_changed_at"] = number(int(time.time()))
            self._changed()

    def shown(self, record: dict[str, Any]) -> dict[str, Any]:
        """A record as slurmctld shows it now, with the flags of reservations that have begun."""
        now, flags = time.time(), []
        for each in self.reservations.values():
            lasts = each["start_time"]["number"] <= now < each["end_time"]["number"]
            if lasts and record["name"] in hostlist.expand(each["node_list"]):
                flags += ["RESERVED", *(["MAINTENANCE"] if "MAINT" in each["flags"] else [])]
        return {**record, "state": [*record["state"], *dict.fromkeys(flags)]}

    def set_base(self, name: str, base: str) -> None:
        """Set a node's base state, keeping its flags."""
        with self.lock:
            record = self.nodes[name]
            record["state"] = [base, *record["state"][1:]]
            self._changed()

    def reserve(
        self,
        name: str,
        nodes: str,
        begins_in: int = 3600,
        seconds: int = 3600,
        *,
        users: str = "alice",
        flags: str = "",
    ) -> None:
        """Somebody reserves nodes."""
        with self.lock:
            starts = int(time.time()) + begins_in
            self.reservations[name] = {
                "name": name,
                "node_list": nodes,
                "start_time": number(starts),
                "end_time": number(starts + 3600),
                "users": users,
                "accounts": "",
                "flags": [*flags.split(), "SPEC_NODES"],
            }

    def run_job(
        self, node: str, partition: str = "main", state: str = "RUNNING", *, requeue: bool = True, names: str = ""
    ) -> int:
        """A job starts on a node, or waits if `node` is empty; suspended ones free their processors, as in Slurm.

        Args:
            node: where it runs.
            partition: where it was submitted to.
            state: its own.
            requeue: whether it may be.
            names: nodes that it asked for.
        """
        with self.lock:
            number = max(self.jobs, default=0) + 1
            self.jobs[number] = {
                "job_id": number,
                "job_state": [state],
                "nodes": node,
                "partition": partition,
                "state_reason": "None",
                "requeue": requeue,
                "batch_flag": True,
                "required_nodes": names,
                "excluded_nodes": "",
                "user_name": "alice",
                "name": "test",
            }
            if node:
                record = self.nodes[node]
                record["alloc_cpus"] = 1 if state == "RUNNING" else 0
                record["alloc_memory"] = 100 * (self.memory and state in ("RUNNING", "SUSPENDED", "CONFIGURING"))
                record["state"] = ["MIXED" if state == "RUNNING" else "IDLE", *record["state"][1:]]
            self._changed()
            return number

    def end_job(self, number: int) -> None:
        """A job ends by itself."""
        with self.lock:
            job = self.jobs[number]
            job["job_state"] = ["COMPLETED"]
            if job["nodes"]:
                record = self.nodes[job["nodes"]]
                record["alloc_cpus"], record["state"] = 0, ["IDLE", *record["state"][1:]]
                record["alloc_memory"] = 0
            self._changed()

    def changes(self) -> list[tuple[str, str]]:
        """The calls that changed something."""
        with self.lock:
            return [call for call in self.calls if call[0] != "GET" or "reconfigure" in call[1]]

    def fail(self, fault: Fault) -> None:
        """Begin to fail in one way, or to work again."""
        with self.lock:
            self.fault = fault
            self._released.set()
            self._released = threading.Event()

    def wait_released(self) -> None:
        """Hang until the fault ends."""
        self._released.wait(60)

    def _changed(self) -> None:
        self.last_update = int(time.time())


def number(value: int) -> dict[str, Any]:
    """A number that is set."""
    return {"set": True, "infinite": False, "number": value}


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
                time.sleep(0.1)

    def _do(
        self, method: str, path: str, query: dict[str, list[str]], body: dict[str, Any] | None, user: str
    ) -> tuple[int, dict[str, Any]]:
        slurm = self.slurm
        fine: dict[str, Any] = {"errors": [], "warnings": []}
        stamp = {"set": True, "infinite": False, "number": slurm.last_update}
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
                "req_time": {"set": True, "infinite": False, "number": int(time.time() - slurm.behind)},
            }
            return 200, {"statistics": counts, **fine}
        if slurm.jobs_fail and path.startswith("/jobs/"):
            return 500, error("Failure to query jobs", 9000, "Something odd")
        if (method, path) == ("GET", "/jobs/state/"):
            states = [{"job_id": str(job["job_id"]), "state": job["job_state"]} for job in slurm.jobs.values()]
            return 200, {"jobs": states, **fine}
        if path.startswith("/job/"):
            job = slurm.jobs.get(int(path.removeprefix("/job/")))
            if job is None:
                return 404, error("Unable to query JobId=" + path[5:], 2017, "Invalid job id specified")
            return 200, {"jobs": [job], "last_backfill": _NEVER, "last_update": stamp, **fine}
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
        elif body and "comment" in body:
            record["comment"] = body["comment"]
        elif body and body.get("state") == ["UNDRAIN"]:
            record["state"] = [flag for flag in record["state"] if flag != "DRAIN"]
            record["reason"] = record["reason_set_by_user"] = ""
        else:
            return 422, error(f"Failure to update node {name}", 2004, "Invalid node state specified")
        slurm._changed()
        return 200, fine

    def _reservation(self, path: str, body: dict[str, Any] | None) -> tuple[int, dict[str, Any]]:
        """Create, change and delete as create_resv, update_resv and delete_resv do (src/slurmctld/reservation.c)."""
        slurm = self.slurm
        fine: dict[str, Any] = {"errors": [], "warnings": []}
        slurm._changed()
        if body is None:
            if slurm.reservations.pop(path.removeprefix("/reservation/"), None) is None:
                return 422, error("slurm_delete_reservation", 2053, "Requested reservation is invalid")
            return 200, fine
        name, now = body["name"], time.time()
        there = slurm.reservations.get(name)
        if unknown := {*body["node_list"]} - slurm.nodes.keys() or not body["node_list"]:
            return 422, error(f"Error with reservation {name}: {unknown}", 2018, "Invalid node name specified")
        if there is None:
            if "users" not in body or body["start_time"]["number"] < now - 600:
                return 422, error(f"Error creating reservation {name}", 2054, "Requested time is invalid")
            there = {"name": name, "accounts": "", "users": ",".join(body["users"])}
            there["flags"] = [*body["flags"], "SPEC_NODES"]
        elif "start_time" in body and there["start_time"]["number"] <= now:
            return 422, error(f"Error updating reservation {name}", 2104, "Reservation already started")
        times = {key: body[key] for key in ("start_time", "end_time") if key in body}
        slurm.reservations[name] = there | times | {"node_list": ",".join(body["node_list"])}
        return 200, {"reservations": [body], **fine}

    def _partition(self, path: str, body: dict[str, Any] | None) -> tuple[int, dict[str, Any]]:
        slurm = self.slurm
        fine: dict[str, Any] = {"errors": [], "warnings": []}
        if body is not None:
            for each in body["partitions"]:
                slurm.partitions[each["name"]] = each["partition"]["state"][0]
            return 200, fine
        stamp = {"set": True, "infinite": False, "number": slurm.last_update}
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
