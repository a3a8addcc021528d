"""Pulumi's state: secrets stay secret, a refresh shows drift and nothing else, killed runs go on."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.provider.stacks import Stack

pytestmark = pytest.mark.apiserver

PAYLOAD = "correct-horse-battery-staple"


def test_secrets_never_stand_in_clear_in_the_state_or_in_a_preview(stack: Stack) -> None:
    text = """
        secret = pulumi.Output.secret("{payload}")
        named = lambda name: {{"name": name, "namespace": namespace}}
        made = k.core.v1.Secret("plain", metadata=named("plain"), string_data={{"key": "{payload}"}}, opts=options)
        k.core.v1.Secret("data", metadata=named("data"), data={{"key": "{encoded}"}}, opts=options)
        k.core.v1.ConfigMap("map", metadata=named("map"), data={{"open": "visible", "key": secret}}, opts=options)
        unawaited = {{"pulumi.com/skipAwait": "true"}}
        pod = {{"containers": [{{"name": "a", "image": "a", "env": [{{"name": "A", "value": secret}}]}}]}}
        k.apps.v1.StatefulSet("set", metadata={{**named("set"), "annotations": unawaited}}, opts=options,
            spec={{"replicas": 0, "serviceName": "set", "selector": {{"matchLabels": {{"a": "a"}}}},
                  "template": {{"metadata": {{"labels": {{"a": "a"}}}}, "spec": pod}}}})
        pulumi.export("data", made.data)
    """
    everything = []
    for payload in (PAYLOAD, f"{PAYLOAD}-2"):
        encoded = base64.b64encode(payload.encode()).decode()
        stack.program(text.format(payload=payload, encoded=encoded), enable_secret_mutable=True)
        everything += [stack.pulumi("preview", "--json"), stack.pulumi("up", "--yes", "--diff", "--skip-preview")]
    everything += [stack.pulumi("preview", "--refresh", "--diff"), stack.pulumi("stack", "export")]
    shown = "\n".join(everything)
    assert "visible" in shown
    assert PAYLOAD not in shown
    assert base64.b64encode(PAYLOAD.encode()).decode().rstrip("=")[:-2] not in shown
    live = stack.cluster.get(f"/api/v1/namespaces/{stack.namespace}/configmaps/map")
    assert live["data"]["key"] == f"{PAYLOAD}-2"


def test_a_refresh_shows_changed_and_deleted_objects_and_nothing_else(stack: Stack) -> None:
    stack.program("""
        for name in ("same", "changed", "deleted"):
            k.core.v1.ConfigMap(name, metadata={"name": name, "namespace": namespace, "labels": {"a": "a"}},
                data={"key": "one"}, opts=options)
    """)
    stack.up()
    path, merge = f"/api/v1/namespaces/{stack.namespace}/configmaps", "application/merge-patch+json"
    stack.cluster.call("PATCH", f"{path}/same", {"metadata": {"labels": {"foreign": "x"}}}, merge)
    stack.pulumi("preview", "--refresh", "--expect-no-changes")
    stack.cluster.call(
        "PATCH", f"{path}/changed", {"metadata": {"labels": {"a": "b"}}}, merge, fieldManager="kubectl-edit"
    )
    stack.cluster.call("DELETE", f"{path}/deleted")
    assert stack.steps("--refresh") == {"changed": "update", "deleted": "create"}
    stack.pulumi("up", "--yes", "--skip-preview", "--refresh")
    assert stack.cluster.get(f"{path}/changed")["metadata"]["labels"] == {"a": "a"}
    assert stack.cluster.get(f"{path}/same")["metadata"]["labels"] == {"a": "a", "foreign": "x"}


def test_an_existing_object_is_imported_and_read(stack: Stack) -> None:
    path = f"/api/v1/namespaces/{stack.namespace}/configmaps"
    stack.cluster.call("POST", path, {"metadata": {"name": "a"}, "data": {"key": "one"}})
    stack.program(
        """
        importing = pulumi.ResourceOptions(provider=provider, import_=f"{namespace}/a")
        k.core.v1.ConfigMap("a", metadata={"name": "a", "namespace": namespace}, data={"key": "one"}, opts=importing)
        read = k.core.v1.ConfigMap.get("read", f"{namespace}/a", opts=options)
        pulumi.export("read", read.data)
    """,
        enable_config_map_mutable=True,
    )
    stack.up()
    assert stack.state()["a"]["inputs"]["data"] == {"key": "one"}
    assert json.loads(stack.pulumi("stack", "output", "--json"))["read"] == {"key": "one"}
    stack.pulumi("preview", "--expect-no-changes")


def held(finalizers: str = "[]") -> str:
    return f"""
        k.core.v1.Service("a", metadata={{"name": "a", "namespace": namespace, "finalizers": {finalizers}}},
            spec={{"type": "LoadBalancer", "ports": [{{"port": 80}}]}}, opts=options)
        k.core.v1.ConfigMap("b", metadata={{"name": "b", "namespace": namespace}}, opts=options)
    """


def kill(running: subprocess.Popen[str], stack: Stack) -> None:
    """Ends pulumi as the kernel would; the stand-in has to notice by itself."""
    os.kill(running.pid, signal.SIGKILL)
    running.communicate(timeout=60)
    for process in plugins(stack, b"pulumi-resource-kubernetes"):
        # The official plugin asks for its engine every five minutes. A machine or container that dies ends both.
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    stack.cluster.until(lambda: not plugins(stack, b"devcluster.standin", b"pulumi-resource-kubernetes"))
    stack.pulumi("cancel", "--yes")


def plugins(stack: Stack, *names: bytes) -> list[int]:
    """Processes of this stack that have one of these names in their command line."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment, command = (process / "environ").read_bytes(), (process / "cmdline").read_bytes()
        except OSError:
            continue
        if f"HOME={stack.folder}".encode() in environment and any(name in command for name in names):
            found.append(int(process.name))
    return found


def pending(stack: Stack) -> list[str]:
    """Types of what the state lists as being made."""
    operations = json.loads(stack.pulumi("stack", "export"))["deployment"].get("pending_operations") or []
    return [each["type"] for each in operations]


@pytest.mark.usefixtures("own_processes")
def test_a_killed_run_is_completed_by_the_next(stack: Stack) -> None:
    path, merge = f"/api/v1/namespaces/{stack.namespace}/services/a", "application/merge-patch+json"
    stack.program(held('["example.com/hold"]'), upsert_existing_objects=True)
    running = stack.start("up", "--yes", "--skip-preview")
    stack.cluster.until(lambda: stack.cluster.get(path).get("spec"))
    kill(running, stack)
    assert "creating" in pending(stack)
    stack.cluster.status(path, {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}})
    stack.up()
    assert set(stack.state()) >= {"a", "b"}
    stack.pulumi("refresh", "--yes", "--skip-preview", "--clear-pending-creates")
    assert pending(stack) == []
    assert "pending operations" not in stack.pulumi("preview", "--expect-no-changes"), "docs/troubleshooting.md"
    running = stack.start("destroy", "--yes", "--skip-preview")
    stack.cluster.until(lambda: stack.cluster.get(path)["metadata"].get("deletionTimestamp"))
    kill(running, stack)
    stack.cluster.call("PATCH", path, {"metadata": {"finalizers": None}}, merge)
    stack.pulumi("destroy", "--yes", "--skip-preview")
    assert stack.cluster.get(path)["code"] == 404
    assert "a" not in stack.state()
