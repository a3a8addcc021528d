"""A random walk through scaling: edits, jobs, drains by others, half listings, passes that die half way.

Whatever happens, no job is killed, no drain of somebody else is changed, no node serves while it is removed; and when
faults and jobs end, the set has its size and Slurm no ghost.
"""

from __future__ import annotations

import dataclasses
import datetime

import hypothesis
from hypothesis import stateful
from hypothesis import strategies as st
from slurm_operator.decisions import nodes as slurm_nodes
from slurm_operator.decisions import replicas
from slurm_operator.seen import Evidence, Pod, SlurmJob, SlurmNode

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
MOST = 6
ORDINALS = st.integers(0, MOST - 1)


@dataclasses.dataclass
class Record:
    """slurmctld's record of a node."""

    base: str = "IDLE"
    drained: bool = False
    reason: str = ""
    user: str = ""


@dataclasses.dataclass
class Job:
    """A job that has a node."""

    node: str
    state: str = "RUNNING"


class Scaling(stateful.RuleBasedStateMachine):
    """One node set, its StatefulSet and pods, Slurm's records and jobs, and the operator's passes over them."""

    def __init__(self) -> None:
        super().__init__()
        self.wanted = self.size = 4
        self.version = 0
        self.pods = {f"cpu-{ordinal}": "ready" for ordinal in range(self.size)}
        self.records = {name: Record() for name in self.pods}
        self.jobs: list[Job] = []
        self.foreign: dict[str, str] = {}

    # What Kubernetes, users and administrators do.

    @stateful.rule(size=st.integers(0, MOST))
    def edit_the_number(self, size: int) -> None:
        self.wanted = size

    @stateful.rule()
    def kubernetes_steps(self) -> None:
        names = [f"cpu-{ordinal}" for ordinal in range(self.size)]
        for name in [name for name, phase in self.pods.items() if phase == "terminating"]:
            del self.pods[name]
            if name in self.records:
                self.records[name].base = "DOWN"
        for name in self.pods:
            if name not in names:
                killed = [job for job in self.jobs if job.node == name]
                assert not killed, f"{name} is removed under {killed}"
                self.pods[name] = "terminating"
            elif self.pods[name] == "starting":
                self.pods[name] = "ready"
                self.records.setdefault(name, Record()).base = "IDLE"
        for name in names:
            self.pods.setdefault(name, "starting")

    def usable(self) -> list[str]:
        return [name for name, record in self.records.items() if not record.drained and record.base == "IDLE"]

    @stateful.precondition(lambda self: self.usable())
    @stateful.rule(data=st.data(), state=st.sampled_from(["RUNNING", "CONFIGURING"]))
    def a_job_starts(self, data: st.DataObject, state: str) -> None:
        self.jobs.append(Job(data.draw(st.sampled_from(self.usable())), state))

    @stateful.precondition(lambda self: self.jobs)
    @stateful.rule(data=st.data(), state=st.sampled_from(["RUNNING", "SUSPENDED", "COMPLETING", "gone"]))
    def a_job_goes_on(self, data: st.DataObject, state: str) -> None:
        job = data.draw(st.sampled_from(self.jobs))
        job.state = state
        self.jobs = [job for job in self.jobs if job.state != "gone"]

    @stateful.rule(ordinal=ORDINALS, reason=st.sampled_from(["bad disk", "pulumi-slurm:scale-in"]))
    def an_administrator_drains(self, ordinal: int, reason: str) -> None:
        record = self.records.get(f"cpu-{ordinal}")
        if record:
            record.drained, record.reason, record.user = True, reason, "root"
            self.foreign[f"cpu-{ordinal}"] = reason

    @stateful.rule(ordinal=ORDINALS)
    def an_administrator_undrains(self, ordinal: int) -> None:
        name = f"cpu-{ordinal}"
        # Undraining a node whose pod is ending is beyond what the operator can prevent.
        if name in self.records and self.pods.get(name) == "ready" and ordinal < self.size:
            self.records[name].drained, self.records[name].reason = False, ""
            self.foreign.pop(name, None)

    # What the operator does, with faults.

    @stateful.rule(
        lost=st.sets(ORDINALS, max_size=3), lost_later=st.sets(ORDINALS, max_size=3), carried_out=st.integers(0, 4)
    )
    def the_operator_passes_with_half_listings_and_dies(
        self, lost: set[int], lost_later: set[int], carried_out: int
    ) -> None:
        self.one_pass(lost, lost_later, carried_out)

    @stateful.rule(edit=st.integers(0, MOST))
    def the_number_changes_during_a_pass(self, edit: int) -> None:
        self.one_pass(set(), set(), 100, edit)

    @stateful.rule()
    def the_operator_passes(self) -> None:
        self.one_pass(set(), set(), 100)

    def one_pass(self, lost: set[int], lost_later: set[int], carried_out: int, edit: int | None = None) -> None:
        pods = {
            name: Pod(name, "worker", phase == "ready", True, phase == "terminating", created=NOW)
            for name, phase in self.pods.items()
        }
        scale = replicas.Scale("cpu", self.wanted, self.size, str(self.version), pods, NOW)
        listing = self.listing(lost)
        evidence = None
        if replicas.needs_evidence(scale, listing):
            evidence = Evidence(self.listing(lost_later), tuple(self.job_listing()))
        self.wanted = self.wanted if edit is None else edit
        for move in replicas.moves(scale, listing, evidence)[:carried_out]:
            self.carry_out(move)

    def listing(self, lost: set[int]) -> dict[str, SlurmNode]:
        return {name: self.seen(name) for name in self.records if int(name[4:]) not in lost}

    def seen(self, name: str) -> SlurmNode:
        record = self.records[name]
        # A suspended job's node reads IDLE without processors allocated.
        running = sum(job.node == name and job.state in ("RUNNING", "CONFIGURING") for job in self.jobs)
        states = {"MIXED" if running else record.base, "DYNAMIC_NORM"} | ({"DRAIN"} if record.drained else set())
        states |= {"COMPLETING"} if any(job.node == name and job.state == "COMPLETING" for job in self.jobs) else set()
        return SlurmNode(name, frozenset(states), record.reason, record.user, running)

    def job_listing(self) -> list[SlurmJob]:
        rows = enumerate(self.jobs)
        return [SlurmJob(n, frozenset({job.state}), frozenset({"main"}), frozenset({job.node})) for n, job in rows]

    def carry_out(self, move: replicas.Move) -> None:
        match move:
            case replicas.SetReplicas():
                if move.resource_version == str(self.version):
                    self.size, self.version = move.replicas, self.version + 1
            case replicas.Drain(node=name):
                if not self.records[name].drained:
                    self.records[name] = dataclasses.replace(
                        self.records[name], drained=True, reason="pulumi-slurm:scale-in", user="slurm"
                    )
            case replicas.Undrain(node=name):
                if slurm_nodes.is_our_drain(self.seen(name)):
                    self.records[name].drained, self.records[name].reason = False, ""
            case replicas.DeleteRecord(node=name):
                assert name not in self.pods, f"the record of {name} goes before its pod"
                assert not [job for job in self.jobs if job.node == name], f"the record of {name} goes under a job"
                del self.records[name]
                self.foreign.pop(name, None)

    # What must always hold.

    @stateful.invariant()
    def drains_of_others_stay(self) -> None:
        for name, reason in self.foreign.items():
            record = self.records[name]
            assert (record.drained, record.reason, record.user) == (True, reason, "root")

    @stateful.invariant()
    def no_node_serves_while_it_is_removed(self) -> None:
        for name, phase in self.pods.items():
            leaving = phase == "terminating" or (phase == "ready" and int(name[4:]) >= self.size)
            assert not leaving or self.records[name].drained, f"{name} takes jobs and is being removed"

    def teardown(self) -> None:
        self.jobs.clear()
        for _ in range(4 * MOST):
            self.the_operator_passes()
            self.kubernetes_steps()
            self.drains_of_others_stay()
        names = {f"cpu-{ordinal}" for ordinal in range(self.wanted)}
        assert (self.size, set(self.records), set(self.pods)) == (self.wanted, names, names)
        ours = [name for name in names if slurm_nodes.is_our_drain(self.seen(name))]
        assert not ours, f"still drained by us: {ours}"


TestScaling = Scaling.TestCase
TestScaling.settings = hypothesis.settings(
    max_examples=250, stateful_step_count=50, deadline=None, suppress_health_check=list(hypothesis.HealthCheck)
)
