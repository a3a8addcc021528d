"""Looks at the cluster while faults happen, and records what it sees: a thread for each source."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from bench.faults import slurm_probe
from bench.faults.cluster import APPS, CORE, CUSTOM, LEASE, CallFailed, Cluster, answered
from bench.faults.record import Record
from bench.faults.verdict import history
from bench.faults.verdict.history import CANARY
from contract import names

LOOK_SECONDS = 1.5
WATCH_SECONDS = 30
LEAVE_SECONDS = 3
"""Time for a look that is under way to finish. What it sees later is not written."""
SILENCE_SECONDS = 20.0
"""Silence after which a probe is started anew: slurmctld may have another pod."""


class Sampler:
    """Context in which a thread for each source looks at the cluster.

    Args:
        cluster: the dev cluster.
        record: where to.
    """

    def __init__(self, cluster: Cluster, record: Record) -> None:
        self._cluster, self._record, self._over = cluster, record, threading.Event()
        self._probe: subprocess.Popen[str] | None = None
        self._heard = 0.0
        loops = (self._look_at_kubernetes, self._watch_events, self._read_logs, self._look_at_slurm, self._mind_probe)
        self._threads = [threading.Thread(target=self._keep, args=(loop,), daemon=True) for loop in loops]
        self._version = ""
        self._read_until: dict[str, str] = {}

    def __enter__(self) -> Sampler:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._probe:
            self._probe.kill()
        for thread in self._threads:
            thread.join(LEAVE_SECONDS)

    def _keep(self, look: Any) -> None:
        """Look again and again. A look that fails is recorded, and the next one may succeed."""
        while not self._over.wait(LOOK_SECONDS):
            try:
                look()
            except Exception as error:  # Whatever it is: the judge says for how long nobody saw anything.
                self._record.write("blind", at=time.time(), look=look.__name__, error=repr(error)[:300])

    def _look_at_kubernetes(self) -> None:
        get = self._cluster.get
        rows = {
            "pods": pods(get(f"{CORE}/pods")["items"]),
            "conditions": {
                **conditions(get(f"{CUSTOM}/{names.SLURM_CLUSTERS}")["items"]),
                **conditions(get(f"{CUSTOM}/{names.NODE_SETS}")["items"]),
            },
            "holder": self._holder(),
            "unready": [
                *unready("StatefulSet", get(f"{APPS}/statefulsets")["items"]),
                *unready("Deployment", get(f"{APPS}/deployments")["items"]),
            ],
            "node_problems": node_problems(get("/api/v1/nodes")["items"]),
        }
        self._record.write("kubernetes", at=time.time(), **rows)

    def _holder(self) -> str:
        """Return the lease's holder; empty if nobody holds it, as after an operator that released it."""
        try:
            return str(self._cluster.get(LEASE)["spec"].get("holderIdentity") or "")
        except CallFailed as failure:
            if answered(failure) == httpx.codes.NOT_FOUND:
                return ""
            raise

    def _watch_events(self) -> None:
        """Record each Event that comes or changes, without those from before the run."""
        if not self._version:
            self._version = self._cluster.get(f"{CORE}/events", limit="1")["metadata"]["resourceVersion"]
        parameters = {"watch": "1", "resourceVersion": self._version, "timeoutSeconds": str(WATCH_SECONDS)}
        with self._cluster.client().stream("GET", f"{CORE}/events", params=parameters, timeout=None) as answer:
            for line in answer.iter_lines():
                change = json.loads(line)
                if change["type"] == "ERROR":
                    self._version = ""  # Too old: what happened since is lost, conditions are seen all the same.
                    return
                self._version = change["object"]["metadata"]["resourceVersion"]
                if change["type"] in ("ADDED", "MODIFIED"):
                    self._record.write("event", at=time.time(), text=event_line(change["object"]))
                if self._over.is_set():
                    return

    def _read_logs(self) -> None:
        """Record the new log lines of each operator, with their own times."""
        for pod in self._cluster.get(f"{CORE}/pods", labelSelector=f"{names.LABEL_COMPONENT}=operator")["items"]:
            name = pod["metadata"]["name"]
            since = self._read_until.setdefault(name, datetime.now(UTC).isoformat(timespec="seconds"))
            with contextlib.suppress(CallFailed):  # It is starting, or gone.
                said = self._cluster.text(f"{CORE}/pods/{name}/log", timestamps="true", sinceTime=since)
                for stamp, text in log_lines(said):
                    if stamp > since:
                        self._read_until[name] = stamp
                        self._record.write("log", at=datetime.fromisoformat(stamp).timestamp(), pod=name, text=text)

    def _look_at_slurm(self) -> None:
        """Record the looks of a probe beside slurmctld, until it ends with its pod."""
        entry = min(self._cluster.processes([*self._cluster.pods("controller").values()], "slurm_node"))
        program = Path(slurm_probe.__file__).read_text()
        command = self._cluster.inside(entry, ["python3", "-u", "-c", program, CANARY])
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True
        ) as probe:
            self._probe, self._heard = probe, time.monotonic()
            assert probe.stdout
            for line in probe.stdout:
                self._heard = time.monotonic()
                if not line.startswith("{"):
                    raise CallFailed(f"the probe beside slurmctld: {line.strip()}")
                row = json.loads(line)
                self._record.write("blind" if "error" in row else "slurm", **row)
                if self._over.is_set():
                    return

    def _mind_probe(self) -> None:
        """End a probe that hangs, so that another one begins."""
        if self._probe and self._probe.poll() is None and time.monotonic() - self._heard > SILENCE_SECONDS:
            self._probe.kill()


def pods(items: list[Any]) -> dict[str, Any]:
    """Return the fields of pods that the judge needs, by name, without pods that completed."""
    return {
        item["metadata"]["name"]: {
            "uid": item["metadata"]["uid"],
            "component": item["metadata"].get("labels", {}).get(names.LABEL_COMPONENT, ""),
            "ready": _is_ready(item),
            "ending": "deletionTimestamp" in item["metadata"],
            "restarts": sum(status["restartCount"] for status in item["status"].get("containerStatuses", [])),
        }
        for item in items
        if item["status"].get("phase") not in ("Succeeded", "Failed")
    }


def _is_ready(item: Mapping[str, Any]) -> bool:
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in item["status"].get("conditions", [])
    )


def conditions(items: list[Any]) -> dict[str, dict[str, list[str]]]:
    """Return conditions of custom resources, and `status.message`: "Kind/name" → type → status, reason, message."""
    conditions = {}
    for item in items:
        status = item.get("status", {})
        rows = {row["type"]: [row["status"], row["reason"], row["message"]] for row in status.get("conditions", [])}
        rows[history.HEADLINE] = ["", "", status.get("message", "")]
        conditions[f"{item['kind']}/{item['metadata']['name']}"] = rows
    return conditions


def unready(kind: str, items: list[Any]) -> list[str]:
    """Return the workloads that lack ready pods of their current generation."""
    pods = []
    for item in items:
        wanted, status = item["spec"].get("replicas", 1), item["status"]
        there = status.get("readyReplicas", 0)
        if there != wanted or status.get("observedGeneration", 0) < item["metadata"]["generation"]:
            pods.append(f"{kind} {item['metadata']['name']}: {there} of {wanted} pods are ready")
    return pods


def node_problems(items: list[Any]) -> list[str]:
    """Return what is wrong with Kubernetes nodes."""
    rows = [(item["metadata"]["name"], item) for item in items]
    cordoned = [f"Kubernetes node {name} is cordoned" for name, item in rows if item["spec"].get("unschedulable")]
    return [*cordoned, *(f"Kubernetes node {name} is not ready" for name, item in rows if not _is_ready(item))]


def event_line(event: Mapping[str, Any]) -> str:
    """Return an Event as a line, as `Kind.told` matches it."""
    about = event["involvedObject"]
    words = " ".join(str(event.get("message", "")).split())
    return f"Event {event.get('type')} {event.get('reason')} {about.get('kind')}/{about.get('name')} {words}"


def log_lines(said: str) -> Iterator[tuple[str, str]]:
    """Return the time and text of each line of a log with the kubelet's timestamps."""
    for line in said.splitlines():
        stamp, _, text = line.partition(" ")
        with contextlib.suppress(ValueError):
            yield datetime.fromisoformat(stamp).isoformat(), text
