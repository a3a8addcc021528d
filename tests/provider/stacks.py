"""A cluster and a Pulumi stack as the tests of the Kubernetes provider see them."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from devcluster.machine import go_programs
from devcluster.machine.bootstrap import CHECKOUT
from devcluster.standin import kubeconfig

COMMAND_SECONDS = 120


class Cluster:
    """The API server as a test sees it, without any code of the stand-in's own client."""

    def __init__(self, path: Path) -> None:
        self.kubeconfig = path
        connection = kubeconfig.read(str(path))
        self.url = connection.server
        self._client = httpx.Client(base_url=connection.server, verify=connection.tls, timeout=20, trust_env=False)

    def call(self, method: str, path: str, body: Any = None, kind: str = "application/json", **query: str) -> Any:
        """One call, whatever the answer's status."""
        content = None if body is None else json.dumps(body)
        answer = self._client.request(method, path, content=content, headers={"Content-Type": kind}, params=query)
        if "json" in answer.headers.get("Content-Type", ""):
            return answer.json()
        return {"kind": "Status", "code": answer.status_code, "message": answer.text}

    def get(self, path: str) -> Any:
        return self.call("GET", path)

    def apply(self, path: str, body: Any, manager: str, force: bool = True) -> Any:
        query = {"fieldManager": manager, "force": str(force).lower()}
        return self.call("PATCH", path, body, "application/apply-patch+yaml", **query)

    def status(self, path: str, status: dict[str, Any]) -> None:
        answer = self.call("PATCH", f"{path}/status", {"status": status}, "application/merge-patch+json")
        assert answer["kind"] != "Status", answer

    def until(self, what: Callable[[], Any], seconds: float = 60) -> Any:
        """Waits for something to be true, and returns it."""
        ends = time.monotonic() + seconds
        while True:
            found = what()
            if found:
                return found
            assert time.monotonic() < ends, f"not within {seconds} s: {what}"
            time.sleep(0.1)  # Between two questions to an API server.


class Stack:
    """A Pulumi stack with a program of a few lines."""

    def __init__(self, folder: Path, programs: list[Path], cluster: Cluster, home: Path) -> None:
        self.folder = folder
        self.cluster = cluster
        self.namespace = f"standin-{secrets.token_hex(4)}"
        path = os.pathsep.join([*map(str, [*programs, Path(sys.executable).parent]), "/usr/bin", "/bin"])
        self.environment = {
            **go_programs.ENVIRONMENT,
            "PATH": path,
            "PYTHONPATH": str(CHECKOUT),
            "HOME": str(folder),
            "PULUMI_HOME": str(home),
            "PULUMI_BACKEND_URL": f"file://{folder}",
            "PULUMI_CONFIG_PASSPHRASE": "test",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_STANDIN_PYTHON": str(shutil.which("python3", path=path)),
            "KUBECONFIG": str(cluster.kubeconfig),
            "PULUMI_STACK": "test",
        }
        (folder / "Pulumi.yaml").write_text("name: standin\nruntime: python\n")
        self.program("")
        empty = home / "empty-stack"
        if not empty.exists():
            self.pulumi("stack", "init", "test")
            shutil.copytree(folder / ".pulumi", empty / ".pulumi")
            shutil.copy(folder / "Pulumi.test.yaml", empty)
        else:  # As `pulumi stack init` leaves it.
            shutil.copytree(empty, folder, dirs_exist_ok=True)

    def program(self, text: str, **provider: Any) -> None:
        """Replaces the program; `options` in it names the provider, `namespace` the test's own namespace."""
        arguments = {"kubeconfig": str(self.cluster.kubeconfig), "cluster_identifier": "test", **provider}
        head = f"""
            import pulumi, pulumi_kubernetes as k
            provider = k.Provider("cluster", **{arguments!r})
            options = pulumi.ResourceOptions(provider=provider)
            namespace = {self.namespace!r}
        """
        (self.folder / "__main__.py").write_text(textwrap.dedent(head) + textwrap.dedent(text))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["pulumi", *arguments, "--non-interactive"],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str) -> tuple[int, str]:
        """Runs pulumi; returns its exit code and output."""
        process = self.start(*arguments)
        try:
            output, _ = process.communicate(timeout=COMMAND_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            pytest.fail(f"pulumi {' '.join(arguments)} took more than {COMMAND_SECONDS} s:\n{output}")
        return process.returncode, output

    def pulumi(self, *arguments: str) -> str:
        code, output = self.run(*arguments)
        assert code == 0, output
        return output

    def fails(self, *arguments: str) -> str:
        code, output = self.run(*arguments)
        assert code != 0, output
        return output

    def up(self) -> str:
        return self.pulumi("up", "--yes", "--skip-preview")

    def steps(self, *arguments: str) -> dict[str, str]:
        """Return what a preview plans: resource name to operation, without what stays the same."""
        output = self.pulumi("preview", "--json", *arguments)
        planned = json.loads(output[output.index("{") :])["steps"]
        return {step["urn"].rsplit("::", 1)[1]: step["op"] for step in planned if step["op"] not in ("same", "refresh")}

    def state(self) -> dict[str, Any]:
        """Exported resources by name."""
        exported = json.loads(self.pulumi("stack", "export"))
        return {item["urn"].rsplit("::", 1)[1]: item for item in exported["deployment"].get("resources") or []}
