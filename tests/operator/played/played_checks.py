"""Slurm, a status and an operator that restarts, for long checks: jobs end as their nodes are good or bad."""

from __future__ import annotations

import dataclasses
import datetime
import random

from slurm_operator.actions import Action, Drain, EndReservation, Reserve, Undrain, UndrainReserved
from slurm_operator.decide.cluster.checks import changes, long_checks
from slurm_operator.decide.cluster.checks.changes import Change, Submitted
from slurm_operator.decide.cluster.checks.ledger import CheckJob, Ledger
from slurm_operator.decide.cluster.checks.selection import Submission
from slurm_operator.decide.node_sets import preconditions, undrain
from slurm_operator.state.kubernetes import Pod
from slurm_operator.state.resources import LongCheck
from slurm_operator.state.slurm import Reservation, SeenCheckJob, SlurmNode

from contract import names, reasons
from contract.policies import ReactionPolicy
from tests.operator.states.sets import node_set

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
PASS = datetime.timedelta(minutes=2)


class PlayedChecks:
    """A cluster with one long check.

    Attributes:
        bad: nodes on which jobs fail.
        drained: drains for failures, in their order.
        exposed: bad nodes that took users' jobs after their first drain; of a check before jobs, at any time.
        asked: requests: check → text.
    """

    def __init__(self, seed: int, size: int, check: LongCheck, bad: set[str]) -> None:
        self.random = random.Random(seed)
        self.check, self.bad, self.now = check, bad, START
        self.pods = [Pod(f"cpu-{n}", "worker", ready=True, running=True, created=START) for n in range(size)]
        self.nodes = {pod.name: SlurmNode(pod.name, frozenset({"IDLE"})) for pod in self.pods}
        self.reservations: dict[str, Reservation] = {}
        self.jobs: dict[int, SeenCheckJob] = {}
        self.aims: dict[int, Submission] = {}
        self.told, self.changes = Ledger(), list[Change]()
        self.drained, self.exposed, self.asked = list[str](), set[str](), dict[str, str]()
        self.cancels = 5

    @property
    def ledger(self) -> Ledger:
        """All that the operator knows."""
        return changes.changed(self.told, self.changes)

    def step(self) -> long_checks.Decision:
        """A pass of the operator; then some jobs end."""
        self.now += PASS
        if self.random.random() < 0.2:
            self.changes = []  # It died before it wrote the status.
        self.told = self.ledger
        self.changes = changes.pending(self.told, self.changes)
        seen = {job_id: self.jobs.get(job_id) for job_id in long_checks.to_look_at(self.told)}
        size = len(self.pods)
        policy = ReactionPolicy(breaker_percent=100)
        shown = self.shown()
        first = (self.check.name,) if self.check.comes_first else ()
        state = node_set(size, size, self.pods, self.now, nodes=shown, reactions=policy, first_checks=first)
        there = tuple(self.reservations.values())
        known = (self.ledger, self.told, seen, self.now, shown, there)
        decided = long_checks.decide([self.check], {"cpu": state}, *known, self.asked)
        # What is told twice counts once.
        self.changes += [change for change in decided.changes for _ in range(self.random.choice((1, 1, 2)))]
        for action in (*undrain.actions(state), *decided.drains, *decided.actions):
            if self.random.random() < 0.9:
                self.execute(action)
        for job_id in decided.releases:
            self.jobs[job_id] = dataclasses.replace(self.jobs[job_id], held=False)
        for submission in decided.submissions:
            self.submit(submission)
        self.end_some()
        known_bad = self.bad if self.check.comes_first else self.bad & {*self.drained}
        serving = {name for name in known_bad if not self.is_kept(name)}
        self.exposed |= serving
        return decided

    def is_kept(self, name: str) -> bool:
        """No user's job begins on the node."""
        reserved = any(name in there.nodes for there in self.reservations.values())
        return reserved or "DRAIN" in self.nodes[name].states

    def shown(self) -> dict[str, SlurmNode]:
        """The nodes as slurmctld lists them."""
        reserved = {name for there in self.reservations.values() for name in there.nodes}
        busy = {name for job in self.jobs.values() if job.states == {"PENDING"} and not job.held for name in job.nodes}
        flags = frozenset({"RESERVED", "MAINTENANCE"})
        changed = {
            name: dataclasses.replace(
                self.nodes[name],
                states=self.nodes[name].states | (flags if name in reserved else set()),
                allocated_cpus=int(name in busy),
            )
            for name in reserved | busy
        }
        return self.nodes | changed

    def execute(self, action: Action) -> None:
        """Do what the operator asks for, if its preconditions hold."""
        match action:
            case Reserve(name, nodes, starts, ends, user, flags):
                assert name not in self.reservations
                self.reservations[name] = Reservation(name, frozenset(nodes), starts, ends, user, "", frozenset(flags))
            case EndReservation(name):
                assert preconditions.reservation_holds(action, self.reservations.values())
                del self.reservations[name]
            case UndrainReserved(node):
                if preconditions.hold(action, self.nodes[node]):
                    assert preconditions.is_reserved(action, self.reservations.values())
                    self.nodes[node] = SlurmNode(node, frozenset({"IDLE"}))
            case Drain(node, reason):
                if preconditions.hold(action, self.nodes[node]):
                    self.drain(node, reason, names.SLURM_USER)
                    self.drained += [node] if reason.startswith(reasons.LONG_CHECK) else []
            case Undrain(node):
                if preconditions.hold(action, self.nodes[node]):
                    self.nodes[node] = SlurmNode(node, frozenset({"IDLE"}))
            case _:
                raise AssertionError(action)

    def drain(self, node: str, reason: str, user: str) -> None:
        """Somebody drains a node."""
        self.nodes[node] = SlurmNode(node, frozenset({"IDLE", "DRAIN"}), reason, user, reason_set=self.now)

    def submit(self, submission: Submission) -> None:
        """The operator submits a job, and remembers it."""
        for node in submission.nodes:
            assert not any(
                node in job.nodes and job.states == {"PENDING"} and not job.held for job in self.jobs.values()
            )
            assert "DRAIN" not in self.nodes[node].states
        number = len(self.jobs) + 1
        name = long_checks.job_name(self.check.name)
        waits = frozenset({"PENDING"})
        nodes = frozenset(submission.nodes)
        self.jobs[number] = SeenCheckJob(name, names.LONG_CHECK_USER_ID, nodes, waits, held=True)
        self.aims[number] = submission
        of = (self.check.name, submission.node, self.now, "", submission.others, submission.aim)
        self.changes.append(Submitted(CheckJob(number, *of)))

    def end_some(self) -> None:
        """Some jobs that run end, in any order."""
        running = [number for number, job in self.jobs.items() if job.states == {"PENDING"} and not job.held]
        for number in self.random.sample(running, len(running)):
            if self.random.random() < 0.4:
                continue
            job = self.jobs[number]
            end = "FAILED" if job.nodes & self.bad else "COMPLETED"
            if self.cancels and self.random.random() < 0.1:
                self.cancels, end = self.cancels - 1, "CANCELLED"
            self.jobs[number] = dataclasses.replace(job, states=frozenset({end}), status=int(end == "FAILED"))
