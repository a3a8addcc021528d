"""The supervisor of an instance: a process of the host that starts the instance's init and cleans up after it.

Whatever ends the init, `kill -9` included, the supervisor removes what the kernel does not: cgroups, veth pair,
nftables table. If the supervisor itself is killed, the instance ends with it (PDEATHSIG), and the next command removes
the rest.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

from devcluster.node import cgroups, links, processes
from devcluster.node.instance import Instance, Runtime, machine_lock

NAMESPACE_SECONDS = 20
PROCESS_GROUPS = ("node", "supervisor")


class InstanceSupervisor:
    """Runs one instance from start to end."""

    def __init__(self, instance: Instance, owner: int | None) -> None:
        self._instance = instance
        self._owner = owner
        self._init: int | None = None

    def run(self) -> None:
        """Start the init, wait for its end, remove what is left."""
        with self._instance.held():
            signal.signal(signal.SIGTERM, self._on_sigterm)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            clean(self._instance)
            self._instance.status_file.unlink(missing_ok=True)
            try:
                cgroups.create(self._instance.name_on_host, PROCESS_GROUPS)
                cgroups.enter(self._instance.name_on_host, "supervisor", os.getpid())
                self._run_init()
            finally:
                self._instance.record_runtime(None)
                cgroups.leave(os.getpid())
                clean(self._instance)
                with machine_lock():
                    links.restore_forwarding()

    def _run_init(self) -> None:
        plan = self._instance.state / "plan.json"
        unshare = subprocess.Popen(
            [
                *("setpriv", "--pdeathsig", "KILL", "--"),
                *("unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "--kill-child=KILL", "--"),
                *(sys.executable, "-m", "devcluster.node.init", str(plan)),
            ],
            stdin=subprocess.PIPE,
        )
        assert unshare.stdin
        try:
            self._init = _wait_for_init(unshare)
            for process in (unshare.pid, self._init):
                cgroups.enter(self._instance.name_on_host, "node", process)
            subnet = links.Subnet.parse(self._instance.description().subnet)
            with machine_lock():
                links.connect(self._instance, subnet, self._init)
            unshare.stdin.write(b"the network is there\n")
            unshare.stdin.close()
            self._instance.record_runtime(Runtime(os.getpid(), self._init, time.time()))
            if self._owner is not None and _first_to_end(unshare.pid, self._owner) == self._owner:
                print(f"process {self._owner}, which this instance belongs to, ended", flush=True)
                os.kill(self._init, signal.SIGTERM)
            unshare.wait()
        finally:
            if unshare.poll() is None:
                unshare.kill()
                unshare.wait()
        print(f"{self._instance.name} ended with status {unshare.returncode}", flush=True)

    def _on_sigterm(self, _signal: int, _frame: FrameType | None) -> None:
        if self._init is not None:
            os.kill(self._init, signal.SIGTERM)


def clean(instance: Instance) -> None:
    """Remove everything of an instance that does not run from the host: processes, cgroups, links, rules."""
    for pid in cgroups.members(instance.name_on_host) - {os.getpid()}:
        # Only a killed supervisor leaves any, for the moment that the kernel needs.
        os.kill(pid, signal.SIGKILL)
    left = cgroups.remove(instance.name_on_host)
    links.disconnect(instance)
    if left:
        print(f"cgroups that could not be removed: {', '.join(map(str, left))}", file=sys.stderr, flush=True)


def _wait_for_init(unshare: subprocess.Popen[bytes]) -> int:
    """Return the pid of the child of `unshare`, once it is in namespaces of its own."""
    deadline = time.monotonic() + NAMESPACE_SECONDS
    while time.monotonic() < deadline:
        if unshare.poll() is not None:
            raise RuntimeError(f"unshare ended with status {unshare.returncode}")
        child = next((pid for pid, parent in processes.parents().items() if parent == unshare.pid), None)
        if child is not None:
            return child
        time.sleep(0.02)  # A new process tells nobody but its parent.
    raise TimeoutError(f"no first process after {NAMESPACE_SECONDS} s")


def _first_to_end(*pids: int) -> int:
    """Wait until one of these processes ends and return its pid."""
    poll, descriptors = select.poll(), {}
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return pid
        descriptors[descriptor] = pid
        poll.register(descriptor, select.POLLIN)
    [(ended, _), *_others] = poll.poll()
    for descriptor in descriptors:
        os.close(descriptor)
    return descriptors[ended]


def start(instance: Instance, log: Path, owner: int | None) -> None:
    """Start the supervisor of an instance, detached from this process and its terminal.

    Args:
        instance: The instance; its plan is written.
        log: Where the supervisor and the init write.
        owner: Process with which the instance ends, for test runs; None for one that lives on.
    """
    module = [sys.executable, "-m", "devcluster.node.instance_supervisor"]
    supervisor = [*module, str(instance.state), *([str(owner)] if owner else [])]
    with log.open("wb") as output:
        subprocess.run(
            ["setsid", "--fork", *supervisor],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd="/",
            env={
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                "PYTHONPATH": str(Path(__file__).parents[2]),
                "PULUMI_SLURM_STATE": str(instance.state.parent),
                "LANG": "C.UTF-8",
            },
            timeout=NAMESPACE_SECONDS,
            check=True,
        )


def main() -> None:
    """Keep the instance of a state folder; a second argument is the process that it ends with."""
    state = Path(sys.argv[1])
    owner = int(sys.argv[2]) if sys.argv[2:] else None
    assert json.loads((state / "plan.json").read_text())["name"] == state.name
    InstanceSupervisor(Instance(state.name, state), owner).run()


if __name__ == "__main__":
    main()
