"""Fake controllers and kubelet for an API server that runs alone, as far as the operator can see."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import threading
from typing import Any

import httpx

from contract import names
from tests.operator.worlds.world import World

KINDS = ("pods", "statefulsets", "deployments")
WATCH_SECONDS = 5
"""A watch begins anew with all that there is, so that a step is made at least this often."""


class FakeWorkloads:
    """Fake controllers and kubelet: pods follow replicas, become ready, register in Slurm, and end when deleted.

    Watches tell when to look: listings ten times a second for each test are half of what the API server does.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self._end = threading.Event()
        self._changed = threading.Event()
        self.failure: BaseException | None = None
        self._told: dict[str, dict[str, Any]] = {}
        self._broken: dict[str, str] = {}  # As the world had it when a step began: a test may change it within one.
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._watches = [threading.Thread(target=self._watch, args=(kind,), daemon=True) for kind in KINDS]

    def __enter__(self) -> FakeWorkloads:
        self._changed.set()
        for thread in (self._thread, *self._watches):
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        if self.failure:
            raise self.failure

    def _watch(self, kind: str) -> None:
        """Tell of each change of a kind until the test has ended; the API server ends each watch by itself."""
        params = {"watch": "true", "timeoutSeconds": str(WATCH_SECONDS)}
        limit = httpx.Timeout(10, read=2 * WATCH_SECONDS)
        while not self._end.wait(0.1):
            # One that is refused or cut off misses changes, which the next tells.
            with (
                contextlib.suppress(httpx.HTTPError),
                self.world.admin.client.stream("GET", self.world.path(kind), params=params, timeout=limit) as changes,
            ):
                for _ in changes.iter_lines():
                    self._changed.set()

    def _run(self) -> None:
        while not self._end.wait(0.1):
            # What a test breaks is no object that could be watched.
            if not self._changed.is_set() and self._broken == self.world.broken:
                continue
            self._changed.clear()
            self._broken = dict(self.world.broken)
            try:
                self._step()
            except (httpx.HTTPError, RuntimeError):
                self._changed.set()  # The API server is away, or an object changed: the next step looks again.
            except BaseException as error:
                self.failure = error
                return

    def _step(self) -> None:
        world = self.world
        pods = {item["metadata"]["name"]: item for item in world.admin.call("GET", world.path("pods"))["items"]}
        owned = [name for name, pod in pods.items() if "ownerReferences" in pod["metadata"]]
        assert not owned, f"a real controller, which is played here, made {owned}"
        for plural in ("statefulsets", "deployments"):
            for workload in world.admin.call("GET", world.path(plural))["items"]:
                self._follow(plural, workload, pods)

    def _follow(self, plural: str, workload: dict[str, Any], pods: dict[str, Any]) -> None:
        world, name = self.world, workload["metadata"]["name"]
        size = workload["spec"]["replicas"]
        worker = workload["metadata"]["labels"][names.LABEL_COMPONENT] == "worker"
        revision = f"{name}-{hashlib.sha256(json.dumps(workload['spec']['template']).encode()).hexdigest()[:8]}"
        wanted = [f"{name}-{ordinal}" for ordinal in range(size)]
        for pod in wanted:
            if pod not in pods:
                template = workload["spec"]["template"]
                metadata = {"name": pod, "labels": template["metadata"]["labels"] | {names.LABEL_REVISION: revision}}
                if worker and pod in self._told:
                    world.slurm.lose(pod)
                if not self._create(pod, {"metadata": metadata, "spec": template["spec"]}, workload):
                    size = len([each for each in wanted if each in pods])
                    break
            if pod not in pods or self._told.get(pod) != self._pod_status(pod):
                world.patch("pods", pod, {"status": self._pod_status(pod)}, "status")
                self._told[pod] = self._pod_status(pod)
                if worker and pod not in self._broken:
                    world.slurm.register(pod, features=(name,), new=True)
        for pod in pods:
            if re.fullmatch(rf"{name}-\d+", pod) and pod not in wanted:
                world.admin.call("DELETE", world.path("pods", pod))
                self._told.pop(pod, None)
                if worker:
                    world.slurm.lose(pod)
        ready = sum(pod not in self._broken for pod in wanted[:size])
        status = {"observedGeneration": workload["metadata"]["generation"], "replicas": size, "readyReplicas": ready}
        status |= {"updatedReplicas": size} | ({"updateRevision": revision} if plural == "statefulsets" else {})
        if workload.get("status") != workload.get("status", {}) | status:
            world.patch(plural, name, {"status": status}, "status")

    def _create(self, pod: str, body: dict[str, Any], workload: dict[str, Any]) -> bool:
        """Create a pod; what forbids it is told as the StatefulSet's controller tells it."""
        try:
            self.world.create("pods", body)
            return True
        except RuntimeError as error:
            if not str(error).startswith("403 "):
                raise
            name, words = workload["metadata"]["name"], str(error).removeprefix("403 ")
        about = {"kind": "StatefulSet", "name": name, "uid": workload["metadata"]["uid"]}
        about["namespace"] = self.world.namespace
        message = f"create Pod {pod} in StatefulSet {name} failed error: {words}"
        metadata = {"generateName": f"{name}."}
        body = {"metadata": metadata, "type": "Warning", "reason": "FailedCreate", "message": message}
        path = f"/api/v1/namespaces/{self.world.namespace}/events"
        self.world.admin.call("POST", path, {**body, "involvedObject": about})
        return False

    def _pod_status(self, name: str) -> dict[str, Any]:
        broken = name in self._broken
        words = self._broken.get(name)
        waiting = {"reason": "ImagePullBackOff", "message": words} if words else {"reason": "ContainerCreating"}
        state: dict[str, Any] = {"waiting": waiting} if broken else {"running": {}}
        return {
            "conditions": [{"type": "Ready", "status": "False" if broken else "True"}],
            "containerStatuses": [
                {
                    "name": "slurm",
                    "image": "none",
                    "imageID": "",
                    "ready": not broken,
                    "restartCount": 0,
                    "state": state,
                }
            ],
        }
