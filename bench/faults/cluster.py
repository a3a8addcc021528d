"""The dev cluster as faults and the sampler reach it: its API server, its login node, the processes of its pods."""

from __future__ import annotations

import base64
import os
import shlex
import signal
import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import httpx
import yaml

from bench.faults.kinds import NODE_SET
from contract import names
from devcluster.cli import up
from devcluster.cli.login import ADMIN, USER
from devcluster.machine.progress import StepFailed
from devcluster.node import node_cli, processes
from devcluster.node.instance import Instance

NAMESPACE: Final = "slurm"
CALL_SECONDS: Final = 10.0
PATIENCE_SECONDS: Final = 45.0
"""For a call or a command to succeed, while another fault may be in its way."""
PAUSE_SECONDS: Final = 1.0
WORTH_ANOTHER_TRY: Final = frozenset({httpx.codes.CONFLICT, httpx.codes.TOO_MANY_REQUESTS})
CUSTOM: Final = f"/apis/{names.API_GROUP}/{names.CRD_VERSION}/namespaces/{NAMESPACE}"
NODE_SET_PATH: Final = f"{CUSTOM}/{names.NODE_SETS}/{NODE_SET}"
CORE: Final = f"/api/v1/namespaces/{NAMESPACE}"
APPS: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}"
PATHS: Final = {
    "ConfigMap": f"{CORE}/configmaps",
    "Secret": f"{CORE}/secrets",
    "Service": f"{CORE}/services",
    "StatefulSet": f"{APPS}/statefulsets",
    "NetworkPolicy": f"/apis/networking.k8s.io/v1/namespaces/{NAMESPACE}/networkpolicies",
}
LEASE: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{names.LEASE}"


class CallFailed(Exception):
    """A call of the API server, or a command, failed; the text says why."""


class Cluster:
    """A running dev cluster.

    Args:
        instance: Which.

    Raises:
        StepFailed: there is none, it does not run, or it is not an embedded one.
    """

    def __init__(self, instance: Instance) -> None:
        if up.is_on_own_cluster(instance):
            raise StepFailed("faults stop processes of the node, so they need an embedded dev cluster: run 'make up'")
        self.dev = up.existing(instance)
        if not instance.is_running():
            raise StepFailed(f"instance {instance.name} does not run: start it with 'make up'")
        self.instance = instance
        self._server, self._tls = _access(self.dev.kubeconfig)
        self._threads = threading.local()

    def wake(self) -> None:
        """Continue processes that a killed run left stopped."""
        runtime = self.instance.runtime()
        if runtime:
            send(sorted(processes.descendants(runtime.init)), signal.SIGCONT)

    def client(self) -> httpx.Client:
        """Return this thread's own client: with a shared one, a thread could close another thread's connection."""
        if not hasattr(self._threads, "client"):
            self._threads.client = httpx.Client(
                base_url=self._server, verify=self._tls, timeout=CALL_SECONDS, trust_env=False
            )
        client: httpx.Client = self._threads.client
        return client

    def get(self, path: str, **parameters: str) -> Any:
        """Get an object or a list, without a second try.

        Raises:
            CallFailed: no answer, or another than what was asked for.
        """
        return self._once("GET", path, None, parameters).json()

    def text(self, path: str, **parameters: str) -> str:
        """Get a log, without a second try."""
        return self._once("GET", path, None, parameters).text

    def change(self, method: str, path: str, body: Any = None) -> Any:
        """Make an idempotent change, and repeat it until it succeeds.

        Raises:
            CallFailed: with the last answer, when it is refused, or patience ends.
        """
        deadline, tried = time.monotonic() + PATIENCE_SECONDS, False
        while True:
            try:
                return self._once(method, path, body, {}).json()
            except CallFailed as failure:
                status = answered(failure)
                if tried and (method, status) == ("DELETE", httpx.codes.NOT_FOUND):
                    return {}  # The answer to the first try was lost.
                refused = httpx.codes.is_client_error(status) and status not in WORTH_ANOTHER_TRY
                if refused or time.monotonic() > deadline:
                    raise
            tried = True
            time.sleep(PAUSE_SECONDS)  # The API server may be stopped, which it tells nobody.

    def _once(self, method: str, path: str, body: Any, parameters: dict[str, str]) -> httpx.Response:
        headers = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else None
        try:
            answer = self.client().request(method, path, json=body, params=parameters, headers=headers)
            answer.raise_for_status()
        except httpx.HTTPStatusError as error:
            raise CallFailed(f"{method} {path}: {error.response.status_code} {error.response.text[:300]}") from error
        except httpx.HTTPError as error:
            raise CallFailed(f"{method} {path}: {error!r}") from error
        return answer

    def pods(self, component: str) -> dict[str, str]:
        """Return the pods of a component: name → uid."""
        listed = self.patiently(f"{CORE}/pods")["items"]
        return {
            pod["metadata"]["name"]: pod["metadata"]["uid"]
            for pod in listed
            if pod["metadata"].get("labels", {}).get(names.LABEL_COMPONENT) == component
        }

    def patiently(self, path: str) -> Any:
        """Get an object or a list, and repeat the request until there is an answer."""
        return self.change("GET", path)

    def holder(self) -> str:
        """Return the holder of the operator's lease."""
        return str(self.patiently(LEASE)["spec"]["holderIdentity"])

    def k8s_node(self) -> str:
        """Return the name of the one Kubernetes node."""
        return str(self.patiently("/api/v1/nodes")["items"][0]["metadata"]["name"])

    def processes(self, pod_uids: Sequence[str], program: str) -> list[int]:
        """Return the processes of a program in pods.

        Raises:
            CallFailed: there is none.
        """
        pids = processes.of_pods(pod_uids, program)
        if not pids:
            raise CallFailed(f"{program} does not run")
        return pids

    def node_program(self, name: str) -> int:
        """Return the process of a program of the Kubernetes node.

        Raises:
            CallFailed: it does not run.
        """
        reports = node_cli.status(self.instance).components
        pid = next((report.state.pid for report in reports if report.state.name == name), None)
        if pid is None:
            raise CallFailed(f"{name} does not run")
        return pid

    def inside(self, pid: int, command: Sequence[str]) -> list[str]:
        """Return a command line that runs a command in a process's namespaces, as its user, with its environment.

        It needs neither the API server nor the kubelet, which may be stopped.
        """
        process = Path(f"/proc/{pid}")
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        user, group = (status[key].split()[0] for key in ("Uid", "Gid"))
        variables = [word for word in (process / "environ").read_bytes().decode().split("\0") if "=" in word]
        namespaces = ["--mount", "--uts", "--ipc", "--net", "--pid"]
        enter = ["nsenter", "--target", str(pid), *namespaces, f"--setuid={user}", f"--setgid={group}"]
        return [*enter, "--root", "--wd", "--", "env", "-i", *variables, *command]

    def in_pod(self, component: str, pod: str, script: str, seconds: float = 30) -> str:
        """Run a shell script in a pod, beside its entry, and return its output.

        Raises:
            CallFailed: it ends with another status than 0.
        """
        entry = min(self.processes([self.pods(component).get(pod, "")], "slurm_node"))
        return _done(self.inside(entry, ["sh", "-c", script]), seconds)

    def ssh(self, script: str, *, user: str = USER, seconds: int = 30) -> str:
        """Run a shell script on a login node and return its output.

        Raises:
            CallFailed: it ends with another status than 0.
        """
        bounded = f"timeout {seconds} bash -c {shlex.quote(script)}"
        return _done(self.dev.login.run_command([bounded], user=user), seconds + 20)

    def administer(self, command: str) -> None:
        """Run an idempotent command of Slurm's administrator, and repeat it until it succeeds."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                self.ssh(command, user=ADMIN)
                return
            except CallFailed:
                if time.monotonic() > deadline:
                    raise
            time.sleep(PAUSE_SECONDS)  # A login node, or slurmctld, comes back unannounced.


def send(pids: Sequence[int], number: signal.Signals) -> None:
    """Send a signal to processes, except those that have ended."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def answered(failure: CallFailed) -> int:
    """Return the HTTP status of a failed call to the API server; 0 without an answer."""
    answer = failure.__cause__
    return answer.response.status_code if isinstance(answer, httpx.HTTPStatusError) else 0


def _done(command: Sequence[str], seconds: float) -> str:
    shown = shlex.join(command)[-200:]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as late:
        raise CallFailed(f"not done within {seconds:.0f} s: {shown}") from late
    if done.returncode != 0:
        raise CallFailed(f"status {done.returncode} of {shown}: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout


def _access(kubeconfig: Path) -> tuple[str, ssl.SSLContext]:
    """Return the API server's URL, and the administrator's certificate to show it."""
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    tls = ssl.create_default_context(cadata=_decoded(cluster["certificate-authority-data"]).decode())
    with tempfile.TemporaryDirectory() as folder:
        # Python loads a certificate from files alone.
        certificate, key = Path(folder) / "certificate", Path(folder) / "key"
        certificate.write_bytes(_decoded(user["client-certificate-data"]))
        key.touch(mode=0o600)
        key.write_bytes(_decoded(user["client-key-data"]))
        tls.load_cert_chain(certificate, key)
    return str(cluster["server"]), tls


def _decoded(data: str) -> bytes:
    return base64.b64decode(data)
