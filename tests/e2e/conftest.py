"""A dev cluster for each worker's end-to-end tests: `make up` itself, on an instance of the tests' own."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from devcluster.cli import up
from devcluster.cli.login import Login
from devcluster.machine import go_programs
from devcluster.node import node_cli
from devcluster.node.instance import Instance
from devcluster.stacks.stack import PROGRAMS
from devcluster.suite import testing
from tests.e2e import network_facts, traces
from tests.e2e.looks import Looks, path_of
from tests.known_packages import python_that_knows_its_packages

NAMESPACE = "slurm"
SETTINGS = {"slurm": {"options": {"KillWait": "5", "SchedulerParameters": "bf_interval=3", "Licenses": "compiler:1"}}}
"""A licence; and less than 30 s for a program that heeds no SIGTERM, and until a job of several components begins."""
SKIP_CHECKPOINTS = "PULUMI_SKIP_CHECKPOINTS"
"""Pulumi's variable for an engine that writes the state when it ends, and not at each step."""
SECONDS = 900
"""Deadline of a test without one of its own. A worker's first test waits for its cluster, on cores that others use."""
LEAST_SECONDS = 90.0
"""Least deadline of a wait, since all lanes of the suite share the cores.

Slurm itself lets a requeued job wait for two minutes, and some tests are about that. So it is less.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/e2e/" in str(item.path):
            item.add_marker(pytest.mark.e2e)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(SECONDS))


@dataclass(frozen=True)
class Done:
    """A finished command."""

    status: int
    stdout: str
    stderr: str

    def ok(self) -> str:
        assert self.status == 0, f"status {self.status}\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"
        return self.stdout.strip()

    @property
    def text(self) -> str:
        return self.stdout + self.stderr


@dataclass(frozen=True)
class Slurm:
    """The cluster as its users see it."""

    cluster: up.Cluster

    def sh(self, script: str, *, user: str = "dev", seconds: int = 60) -> Done:
        """Run a shell script on a login node over SSH."""
        return self.at(self.cluster.login, script, user=user, seconds=seconds)

    def at(self, login: Login, script: str, *, user: str = "dev", seconds: int = 60) -> Done:
        """Run a shell script where `login` leads. The limit stands inside too: a hung srun waits for ever."""
        bounded = f"timeout {seconds} bash -c {shlex.quote(script)}"
        return _done(login.run_command([bounded], user=user), seconds + 20)

    def kubectl(self, *arguments: str, seconds: int = 60, text: str | None = None) -> Done:
        """kubectl in the cluster's namespace."""
        command = [
            str(self.cluster.binaries / "kubectl"),
            "--kubeconfig",
            str(self.cluster.kubeconfig),
            "-n",
            NAMESPACE,
        ]
        return _done([*command, *arguments], seconds, text, {**os.environ, **go_programs.ENVIRONMENT})

    @functools.cached_property
    def looks(self) -> Looks:
        """Cheap looks at the cluster."""
        return Looks(self.cluster.kubeconfig, NAMESPACE)

    def get(self, *arguments: str) -> Any:
        """Return what `kubectl get` would give for these words."""
        if path := path_of(arguments, NAMESPACE):
            return self.looks.get(path)
        return json.loads(self.kubectl("get", *arguments, "-o", "json").ok())

    def condition(self, kind: str, *resource: str) -> dict[str, str]:
        """Return a condition of the SlurmCluster, or of another resource.

        Raises:
            LookupError: The resource does not have it yet.
        """
        shown = self.get(*(resource or ("slurmcluster", "dev"))).get("status", {}).get("conditions", [])
        found: dict[str, dict[str, str]] = {each["type"]: each for each in shown}
        return found[kind]

    def told(self, reason: str = "") -> list[str]:
        """Return the notes of the Events, of all or of those with a reason."""
        events = self.get("events.events.k8s.io")["items"]
        return [each.get("note", "") for each in events if reason in ("", each.get("reason"))]

    def on_pod(self, pod: str, script: str, *, seconds: int = 60) -> Done:
        """A shell script in the pod's own root, outside the jail."""
        return self.kubectl("exec", pod, "--", "sh", "-c", script, seconds=seconds)

    def pulumi(self, *arguments: str, seconds: int = 600) -> Done:
        stack = self.cluster.stack
        stack.clear_dead_lock()  # An engine that was killed, by a test or at its limit, leaves it.
        command = [str(stack.binaries / "pulumi"), *stack.arguments([*arguments, "--non-interactive"])]
        return _done(command, seconds, environment=stack.environment())

    def kill_up(self, when: Callable[[str], bool]) -> None:
        """Begin a `pulumi up` and kill the engine when a line of its output is such."""
        stack = self.cluster.stack
        process = subprocess.Popen(
            [str(stack.binaries / "pulumi"), *stack.arguments(["up", "--yes", "--skip-preview", "--non-interactive"])],
            env={**stack.environment(), SKIP_CHECKPOINTS: "false"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        assert any(when(line) for line in process.stdout)
        process.kill()
        process.wait(30)
        # Not all of its plugins notice that it is gone.
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                session = stat.read_text().rpartition(")")[2].split()[3]
                if session == str(process.pid):
                    os.kill(int(stat.parent.name), signal.SIGKILL)

    def wait(self, what: str, condition: Callable[[], Any], seconds: float = 60) -> Any:
        """Wait until `condition` gives something true; its last answer is in the failure.

        A condition that fails is not met yet: what it asks may be away or without a status for a moment. The deadline
        is LEAST_SECONDS if these are more than `seconds`.
        """
        seconds = max(seconds, LEAST_SECONDS)
        deadline, pause = time.monotonic() + seconds, 0.2
        while True:
            try:
                if last := condition():
                    return last
            except (AssertionError, LookupError, ValueError) as unmet:
                last = unmet
            if time.monotonic() > deadline:
                pytest.fail(f"{what}: not within {seconds} s; last seen: {last!r}")
            # A look starts kubectl or ssh: what takes long is looked at less often, on cores that others need.
            time.sleep(pause)  # Slurm tells nobody when its state changes.
            pause = min(pause * 1.3, 1.5)

    def nodes(self) -> dict[str, str]:
        """State of each Slurm node, by name."""
        return self.looks.nodes()

    def all_idle(self) -> bool:
        """Return whether every wanted node is idle. One that is being updated is unknown to Slurm for a moment."""
        staying = [each for each in self.get("nodesets")["items"] if "deletionTimestamp" not in each["metadata"]]
        wanted = sum(each["spec"]["replicas"] for each in staying)
        return list(self.nodes().values()) == ["idle"] * wanted

    def idle_within(self, seconds: float) -> bool:
        """Return whether all nodes are idle before the time is over."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(AssertionError):
                if self.all_idle():
                    return True
            time.sleep(0.2)  # Between two looks at Slurm, which tells nobody.
        return False

    def put_right(self) -> None:
        """Undo what a failed test may have left: an operator at rest, jobs, its edits of the loaded configuration."""
        self.kubectl("scale", "deployment/slurm-operator", "--replicas=1")
        self.kubectl("rollout", "status", "deployment/slurm-operator", "--timeout=60s", seconds=70)
        self.on_pod("slurm-controller-0", "scontrol reconfigure; squeue -h -o %i | xargs -r scancel")

    def report(self) -> str:
        """Nodes, jobs, pods, what the operator says and the node's network, for the report of a failure."""
        asked = self.on_pod("slurm-controller-0", "sinfo -N -o '%N %T %E'; squeue", seconds=20)
        seen = [asked.text]
        for what in ("pods -o wide", "endpointslices", "slurmclusters,nodesets"):
            seen.append(self.kubectl("get", *what.split(), seconds=20).text)
        seen.append(self.kubectl("logs", "deployment/slurm-operator", "--tail=15", seconds=20).text)
        seen.append(network_facts.of(self.cluster.instance))
        return "\n".join(seen)


def _done(
    command: list[str], seconds: float, text: str | None = None, environment: dict[str, str] | None = None
) -> Done:
    try:
        finished = subprocess.run(
            command, input=text or "", capture_output=True, text=True, timeout=seconds, check=False, env=environment
        )
    except subprocess.TimeoutExpired as late:
        shown = b"".join(part for part in (late.stdout, late.stderr) if isinstance(part, bytes)).decode()
        return Done(124, shown, f"not done within {seconds} s: {shlex.join(command)}")
    return Done(finished.returncode, finished.stdout, finished.stderr)


@pytest.fixture(scope="session")
def known_packages(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Have all runs of Pulumi learn from a file which packages Python has."""
    os.environ[PROGRAMS] = str(python_that_knows_its_packages(tmp_path_factory.mktemp("programs")))


@pytest.fixture(scope="session")
def slurm(known_packages: None, preloaded: Path) -> Iterator[Slurm]:
    """The cluster of this test session, made by what `make up` calls.

    Pulumi starts its programs for this first `up` as for users. Later ones are forked: they would import for two
    seconds of a core, in each of some fifty updates and previews. Later engines write the state when they
    end, since each step's write takes half of an update's time. One that a test kills writes it at each step.

    PULUMI_SLURM_E2E_INSTANCE names one that is up already, for writing tests: it is used as it is, and stays.
    """
    if existing := os.environ.get("PULUMI_SLURM_E2E_INSTANCE"):
        yield Slurm(up.existing(Instance.named(existing)))
        return
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    instance = Instance.named("-".join(filter(None, (testing.test_instance_name(), worker))))
    try:
        slurm = Slurm(up.up(instance, owner=os.getpid(), settings=SETTINGS))
        programs = {PROGRAMS: str(preloaded), "PULUMI_STANDIN_PYTHON": str(preloaded / "python3")}
        os.environ |= {**programs, SKIP_CHECKPOINTS: "true"}
        yield slurm
        assert not traces.of_nodes(slurm), "tests leave nothing of a node on the shared volume"
    finally:
        node_cli.remove(instance)


@pytest.fixture(autouse=True)
def idle_before(request: pytest.FixtureRequest) -> None:
    """Each test that runs jobs starts with all nodes idle, so that none waits for another's job.

    What a failed one left behind is put right first, so that it takes none with it.
    """
    if "slurm" in request.fixturenames:
        cluster: Slurm = request.getfixturevalue("slurm")
        if not cluster.idle_within(60):
            cluster.put_right()
            cluster.wait("all nodes idle", cluster.all_idle, 240)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Beside each failure, what the cluster looked like then."""
    report = yield
    cluster = getattr(item, "funcargs", {}).get("slurm")
    if report.failed and cluster is not None:
        report.sections.append(("the cluster at this failure", cluster.report()))
    return report
