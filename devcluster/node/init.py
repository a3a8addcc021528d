"""Pid 1 of an instance: prepares its namespaces, then starts, watches and restarts the node's components.

The supervisor runs it as `python -m devcluster.node.init PLAN`, in new mount, pid and network namespaces. It waits for
one line on standard input: the supervisor lays the veth pair in between. When it ends, the kernel ends and unmounts
everything else.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from dataclasses import asdict, replace
from pathlib import Path

from devcluster.node import supervision
from devcluster.node.instance import write_json
from devcluster.node.supervision import Component, ComponentState, NodePlan, Probe

WAKEUP_SECONDS = 0.2
START_SECONDS = 120
STOP_SECONDS = 15
LOG_LIMIT_BYTES = 64 * 1024 * 1024
LOG_CHECK_SECONDS = 30
SHIM = "containerd-shim"  # as the kernel cuts the name
SIGNALS = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
SYSCTLS = {
    "net/ipv4/ip_forward": "1",
    # Pods talk to each other over a bridge: Services and network policies see that traffic only with this.
    "net/bridge/bridge-nf-call-iptables": "1",
}


class Supervisor:
    """Starts the components in order, reaps every process of the namespace, restarts what ends by itself."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._plan = plan = read(file)
        self._components = {component.name: component for component in plan.components}
        self._states = {name: ComponentState(name) for name in self._components}
        self._failures = dict.fromkeys(self._components, 0)
        self._due: dict[str, float] = {}
        self._replaced: set[str] = set()
        self._stopping = False
        self._logs_checked = time.monotonic()

    def run(self) -> None:
        """Start everything, then supervise until told to stop."""
        self._save()
        for component in self._plan.components:
            if component.name not in self._due:
                self._start(component)
            if component.probe and not self._wait(component.probe):
                break
        while not self._stopping:
            self._turn()
        self._stop()

    def _wait(self, probe: Probe) -> bool:
        """Supervise until the probe answers; false when the instance is being stopped."""
        deadline = time.monotonic() + START_SECONDS
        while not self._stopping and not _answers(probe):
            if time.monotonic() > deadline:
                # Start the others anyway: each logs what it lacks.
                return True
            self._turn()
        return not self._stopping

    def _turn(self) -> None:
        received = signal.sigtimedwait(SIGNALS, WAKEUP_SECONDS)
        if received and received.si_signo in {signal.SIGTERM, signal.SIGINT}:
            self._stopping = True
            return
        if received and received.si_signo == signal.SIGHUP:
            self._change()
        for pid, status in _reap():
            self._ended(pid, status)
        for name in [name for name, due in self._due.items() if due <= time.monotonic()]:
            del self._due[name]
            self._start(self._components[name])
        self._limit_logs()

    def _change(self) -> None:
        """Apply a new plan: restart components that it changes, start added ones, end dropped ones."""
        self._plan = read(self._file)
        former, self._components = self._components, {component.name: component for component in self._plan.components}
        for name in supervision.changed(former, self._components):
            print(f"{name} changed", flush=True)
            state = self._states.setdefault(name, ComponentState(name))
            self._failures.setdefault(name, 0)
            if state.pid:
                self._replaced.add(name)
                os.kill(state.pid, signal.SIGTERM)
            elif name in self._components:
                self._due[name] = time.monotonic()
            else:
                self._forget(name)

    def _forget(self, name: str) -> None:
        del self._states[name]
        self._due.pop(name, None)
        self._save()

    def _start(self, component: Component) -> None:
        log = str(Path(self._plan.logs) / f"{component.name}.log")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        try:
            pid = os.posix_spawn(
                component.command[0],
                component.command,
                {"PATH": os.environ["PATH"], "HOME": "/root", **component.environment},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, log, flags, 0o644),
                    (os.POSIX_SPAWN_DUP2, 1, 2),
                ],
                setsid=True,
                setsigmask=[],
            )
        except OSError as error:
            # Its program may be being replaced. The node runs without it meanwhile.
            self._start_again(component.name, 0, f"could not be started: {error}")
            return
        self._states[component.name] = replace(self._states[component.name], pid=pid, since=time.time())
        self._save()

    def _ended(self, pid: int, status: int) -> None:
        name = next((name for name, state in self._states.items() if state.pid == pid), None)
        if name is None:
            return  # a container's shim or another orphan that pid 1 inherits
        state = self._states[name]
        if name in self._replaced or name not in self._components:
            self._replaced.discard(name)
            self._states[name] = ComponentState(name, restarts=state.restarts, last_exit=state.last_exit)
            if name in self._components:
                self._start(self._components[name])
            else:
                self._forget(name)
            return
        lived = time.time() - (state.since or time.time())
        self._start_again(name, lived, f"{_in_words(status)} after {lived:.0f} s")

    def _start_again(self, name: str, lived_seconds: float, how: str) -> None:
        self._failures[name] = supervision.failures_after(self._failures[name], lived_seconds)
        self._due[name] = time.monotonic() + supervision.backoff_seconds(self._failures[name])
        how = f"{how} at {time.strftime('%H:%M:%S')}"
        state = self._states[name]
        self._states[name] = replace(state, pid=None, since=None, restarts=state.restarts + 1, last_exit=how)
        print(f"{name} ended: {how}", flush=True)
        self._save()

    def _stop(self) -> None:
        """End all processes: first those that would restart containers, then the rest together."""
        print("stopping", flush=True)
        for name in ("kubelet", "containerd"):
            state = self._states.get(name)
            if state and state.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(state.pid, signal.SIGTERM)
                    os.waitpid(state.pid, 0)
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGTERM)
        # Only containers have state worth waiting for. The node's own programs are safe to kill: etcd's writes are in
        # the page cache. The API server would spend ten seconds on its open watches.
        deadline = time.monotonic() + STOP_SECONDS
        while time.monotonic() < deadline and self._container_processes():
            signal.sigtimedwait(SIGNALS, WAKEUP_SECONDS)
            _reap()

    def _container_processes(self) -> list[str]:
        own = {"1", *(str(state.pid) for state in self._states.values())}
        others = (process for process in Path("/proc").iterdir() if process.name.isdigit() and process.name not in own)
        return [process.name for process in others if _command_name(process) != SHIM]

    def _limit_logs(self) -> None:
        if time.monotonic() - self._logs_checked < LOG_CHECK_SECONDS:
            return
        self._logs_checked = time.monotonic()
        for log in Path(self._plan.logs).glob("*.log"):
            if log.stat().st_size > LOG_LIMIT_BYTES:
                # Copied, then cut: the component keeps the file open for appending.
                log.with_suffix(".log.1").write_bytes(log.read_bytes())
                os.truncate(log, 0)

    def _save(self) -> None:
        write_json(Path(self._plan.status), [asdict(state) for state in self._states.values()])


def read(file: Path) -> NodePlan:
    """Read the plan that `up` wrote."""
    return NodePlan.from_json(json.loads(file.read_text()))


def prepare(plan: NodePlan) -> None:
    """Make the mounts, the host name and the network of the node."""
    for tmpfs in ("/run", "/var/lib/cni"):
        Path(tmpfs).mkdir(parents=True, exist_ok=True)
        _run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", tmpfs)
    for folder in ("/run/lock", "/run/netns"):
        Path(folder).mkdir()
    for source, target in plan.binds:
        Path(source).mkdir(parents=True, exist_ok=True)
        Path(target).mkdir(parents=True, exist_ok=True)
        _run("mount", "--bind", source, target)
    for command in (
        ("link", "set", "lo", "up"),
        ("addr", "add", plan.address, "dev", "eth0"),
        ("link", "set", "eth0", "up"),
        ("route", "add", "default", "via", plan.gateway),
    ):
        _run("ip", *command)
    for name, value in SYSCTLS.items():
        setting = Path("/proc/sys") / name
        if setting.exists():
            setting.write_text(value)
    for log in Path(plan.logs).glob("*.log"):
        log.replace(log.with_suffix(".log.1"))


def _answers(probe: Probe) -> bool:
    host, port = probe.address
    context = ssl.create_default_context(cafile=probe.authority or None)
    if probe.certificate:
        context.load_cert_chain(probe.certificate, probe.key)
    scheme, path = ("https", "/readyz") if probe.authority else ("http", "/health")
    try:
        url = f"{scheme}://{host}:{port}{path}"
        with urllib.request.urlopen(url, timeout=2, context=context):  # noqa: S310 - http or https, of a component here
            return True
    except (OSError, http.client.HTTPException):
        return False


def _command_name(process: Path) -> str:
    try:
        return (process / "comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return SHIM  # it ended in the meantime


def _reap() -> list[tuple[int, int]]:
    ended: list[tuple[int, int]] = []
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            ended.append((pid, status))
    return ended


def _in_words(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


def main() -> None:
    """Run the plan named by the only argument."""
    plan = Path(sys.argv[1])
    if not sys.stdin.readline():
        raise SystemExit("the supervisor went away before the network was there")
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    prepare(read(plan))
    Supervisor(plan).run()


if __name__ == "__main__":
    main()
