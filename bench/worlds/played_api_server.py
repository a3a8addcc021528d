"""An API server that this process plays: objects, pages, watches, and writes that merge. It refuses nothing.

It stands for the real one where only the operator's memory counts: thousands of objects are there at once.
"""

from __future__ import annotations

import json
import queue
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from contract import names

Object = dict[str, Any]
NAMESPACE = "bench"
_KINDS = {
    names.SLURM_CLUSTERS: "SlurmCluster",
    names.NODE_SETS: "NodeSet",
    "configmaps": "ConfigMap",
    "secrets": "Secret",
    "pods": "Pod",
    "nodes": "Node",
    "statefulsets": "StatefulSet",
    "deployments": "Deployment",
    "leases": "Lease",
    "events": "Event",
}
_VERBS = ["get", "list", "watch", "patch"]


class PlayedApiServer(ThreadingHTTPServer):
    """One namespace, on a port of the loopback address."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.lock = threading.RLock()
        self.objects: dict[str, dict[str, Object]] = {plural: {} for plural in _KINDS}
        self.version = 10
        self.watches: dict[str, list[queue.Queue[Object]]] = {plural: [] for plural in _KINDS}
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def put(self, plural: str, body: Object) -> Object:
        """Create an object, or merge into the one that is there."""
        with self.lock:
            there, name = self.objects[plural], body["metadata"]["name"]
            before = there.get(name) or {"kind": _KINDS[plural], "metadata": _made()}
            after = _merged(before, body)
            if after == before:
                return after
            self.version += 1
            after["metadata"] |= {"resourceVersion": str(self.version), "namespace": NAMESPACE}
            after["metadata"]["generation"] += before.get("spec") != after.get("spec")
            there[name] = after
            for watch in self.watches[plural]:
                watch.put({"type": "MODIFIED" if "spec" in before else "ADDED", "object": after})
            return after

    def listed(self, plural: str, query: dict[str, str]) -> Object:
        """A page of a listing."""
        with self.lock:
            items = [body for _, body in sorted(self.objects[plural].items()) if _is_asked_for(body, query)]
            first, size = int(query.get("continue", 0)), int(query.get("limit", len(items)))
            metadata = {"resourceVersion": str(self.version)}
            if first + size < len(items):
                metadata["continue"] = str(first + size)
            return {"kind": "List", "metadata": metadata, "items": items[first : first + size]}

    def watch(self, plural: str, since: int) -> queue.Queue[Object]:
        """Changes from a version on."""
        with self.lock:
            news: queue.Queue[Object] = queue.Queue()
            self.watches[plural].append(news)
            for body in self.objects[plural].values():
                if int(body["metadata"]["resourceVersion"]) > since:
                    news.put({"type": "MODIFIED", "object": body})
            return news


def _made() -> Object:
    return {"generation": 0, "uid": str(uuid.uuid4()), "creationTimestamp": "2026-11-25T08:00:00Z"}


def _merged(before: Object, change: Object) -> Object:
    after = dict(before)
    for key, value in change.items():
        if isinstance(value, dict) and isinstance(after.get(key), dict):
            after[key] = _merged(after[key], value)
        elif key == "conditions" and key in after:
            after[key] = [*{item["type"]: item for item in (*after[key], *value)}.values()]
        else:
            after[key] = value
    return after


def _is_asked_for(body: Object, query: dict[str, str]) -> bool:
    name = query.get("fieldSelector", "").removeprefix("metadata.name=")
    labels = dict(term.split("=", 1) for term in query.get("labelSelector", "").split(",") if term)
    metadata = body["metadata"]
    return name in ("", metadata["name"]) and labels.items() <= metadata.get("labels", {}).items()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: PlayedApiServer

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        plural, name = _parts(url.path)
        if not plural:
            self._answer(200, _discovery(url.path))
        elif query.get("watch") == "true":
            self._watch(plural, query)
        elif not name:
            self._answer(200, self.server.listed(plural, query))
        elif body := self.server.objects[plural].get(name):
            self._answer(200, body)
        else:
            self._answer(404, {"message": f"no {plural} {name}"})

    def do_POST(self) -> None:
        self._write()

    def do_PUT(self) -> None:
        self._write()

    def do_PATCH(self) -> None:
        self._write()

    def _write(self) -> None:
        plural, name = _parts(urlsplit(self.path).path)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if isinstance(body, list):  # A JSON patch: the labels and annotations that it changes take no memory.
            return self._answer(200, self.server.objects[plural][name])
        metadata = {"name": name, **body.get("metadata", {})}
        metadata.pop("resourceVersion", None)
        return self._answer(200, self.server.put(plural, {**body, "metadata": metadata}))

    def _watch(self, plural: str, query: dict[str, str]) -> None:
        news = self.server.watch(plural, int(query.get("resourceVersion") or 0))
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            while True:
                change = news.get()
                if _is_asked_for(change["object"], query):
                    line = json.dumps(change).encode() + b"\n"
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        except OSError:
            self.close_connection = True

    def _answer(self, status: int, body: Object) -> None:
        content = json.dumps(body, separators=(",", ":")).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _parts(path: str) -> tuple[str, str]:
    """Plural and name of a path."""
    words = path.strip("/").split("/")
    rest = words[2 if words[0] == "api" else 3 :]
    plural, name = [*(rest[2:] if rest[:1] == ["namespaces"] else rest), "", ""][:2]
    return plural, name


def _discovery(path: str) -> Object:
    """Answers what kopf asks before it watches our resources."""
    if path == "/api":
        return {"versions": ["v1"]}
    if path == "/apis":
        version = {"groupVersion": names.API_VERSION, "version": names.CRD_VERSION}
        return {"groups": [{"name": names.API_GROUP, "preferredVersion": version, "versions": [version]}]}
    if path == "/api/v1":  # kopf waits for this kind, also where it lists no namespaces.
        return {"resources": [_resource("namespaces", "Namespace", namespaced=False)]}
    ours = (names.SLURM_CLUSTERS, names.NODE_SETS) if path.endswith(names.API_VERSION) else ()
    return {"resources": [_resource(plural, _KINDS[plural], namespaced=True) for plural in ours]}


def _resource(plural: str, kind: str, *, namespaced: bool) -> Object:
    return {"name": plural, "kind": kind, "singularName": plural[:-1], "namespaced": namespaced, "verbs": _VERBS}
