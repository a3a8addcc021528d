"""A random walk through all that moves nodes: edits of number and template, sick, cordoned, tainted and lost machines.

Jobs come and go, administrators drain, listings are half, passes die between two actions, pods take their time, and the
clock runs. Whatever happens: no job is killed without a deadline, no drain of somebody else is changed, budgets are
kept, no node serves while it is removed, no machine is cordoned by us but for a repair that was noted; and when faults
and jobs end, every set has its size and its newest template, and Slurm no ghost.
"""

from __future__ import annotations

import dataclasses
import datetime
from typing import ClassVar

import hypothesis
from hypothesis import stateful
from hypothesis import strategies as st
from slurm_operator import names
from slurm_operator.decisions import machines, reactions, replicas, updates
from slurm_operator.decisions import nodes as slurm_nodes
from slurm_operator.seen import (
    Evidence,
    Machine,
    Pod,
    ReactionPolicy,
    RemovalPolicy,
    Restart,
    SlurmJob,
    SlurmNode,
    Taint,
    UpdatePolicy,
)

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
MOST = 6
LEAST_STEPS = 10_000
ORDINALS = st.integers(0, MOST - 1)
DEADLINES = st.sampled_from([None, None, 0, 300])
UNFIT = "pulumi-slurm:health gpus: 3 of 4 GPUs answer"
REACTIONS = ReactionPolicy(restart=True, after_seconds=60, attempts=2, at_once=1, per_hour=2, breaker_percent=60)


@dataclasses.dataclass
class Worker:
    """A pod: starting, up or ending."""

    number: int
    revision: int
    created: datetime.datetime
    machine: str
    phase: str = "starting"
    evictable: bool = False


@dataclasses.dataclass
class Record:
    """slurmctld's record of a node."""

    started: datetime.datetime
    base: str = "IDLE"
    drained: bool = False
    reason: str = ""
    user: str = ""
    since: datetime.datetime = NOW
    comment: str = ""

    def drain(self, reason: str, user: str, since: datetime.datetime) -> None:
        self.drained, self.reason, self.user, self.since = True, reason, user, since

    def undrain(self) -> None:
        self.drained, self.reason, self.user = False, "", ""


@dataclasses.dataclass
class Job:
    """A job that has a node."""

    node: str
    state: str = "RUNNING"


@dataclasses.dataclass
class Host:
    """A Kubernetes node: what it lacks, and what others and we said of it."""

    sick: bool = False
    cordoned: bool = False
    tainted: bool = False
    away_since: datetime.datetime | None = None
    dead: bool = False
    ours: bool = False

    @property
    def takes_pods(self) -> bool:
        return not (self.cordoned or self.tainted or self.ours or self.away_since)


class Model(stateful.RuleBasedStateMachine):
    """One node set, its StatefulSet and pods, Slurm's records and jobs, and the operator's passes over them."""

    steps: ClassVar[int] = 0
    repairs: ClassVar[dict[bool, int]] = {}
    """How many were done: restarts (false), replacements (true)."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.wanted = self.size = 0
        self.version = self.revision = self.made = 0
        self.pods: dict[str, Worker] = {}
        self.records: dict[str, Record] = {}
        self.jobs: list[Job] = []
        self.foreign: dict[str, str] = {}
        self.hosts = {f"m-{n}": Host() for n in range(2 * MOST)}
        self.restarts: tuple[Restart, ...] = ()
        self.update = UpdatePolicy()
        self.removal = RemovalPolicy()
        self.reactions = REACTIONS
        self.hold = ""

    @stateful.initialize(
        size=st.integers(1, MOST),
        room=st.integers(1, 3),
        update=DEADLINES,
        removal=DEADLINES,
        rungs=st.sampled_from([(True, False), (True, True), (False, True)]),
    )
    def a_set_runs(
        self, size: int, room: int, update: int | None, removal: int | None, rungs: tuple[bool, bool]
    ) -> None:
        self.reactions = dataclasses.replace(REACTIONS, restart=rungs[0], replace=rungs[1])
        self.wanted = self.size = size
        for ordinal in range(size):
            self.pods[f"cpu-{ordinal}"] = Worker(0, 0, NOW, f"m-{ordinal}", "up")
            self.records[f"cpu-{ordinal}"] = Record(NOW)
        self.update = UpdatePolicy(room, update)
        self.removal = RemovalPolicy(removal)

    # What Kubernetes, users, administrators and time do.

    @stateful.rule(size=st.integers(0, MOST))
    def edit_the_number(self, size: int) -> None:
        self.wanted = size

    @stateful.rule()
    def change_the_template(self) -> None:
        self.revision += 1

    @stateful.rule()
    def change_the_template_back(self) -> None:
        self.revision = max(0, self.revision - 1)

    @stateful.rule(paused=st.booleans(), hold=st.sampled_from(["", "pulumi up is under way"]))
    def pause_or_go_on(self, paused: bool, hold: str) -> None:
        self.update, self.hold = dataclasses.replace(self.update, paused=paused), hold

    @stateful.rule(seconds=st.sampled_from([1, 30, 90, 400, 4000]))
    def time_passes(self, seconds: int) -> None:
        self.now += datetime.timedelta(seconds=seconds)

    @stateful.rule()
    def kubernetes_steps(self) -> None:
        staying = [f"cpu-{ordinal}" for ordinal in range(self.size)]
        for name in [name for name, pod in self.pods.items() if pod.phase == "ending" and not self.is_away(pod)]:
            self.no_job_is_on(name)
            del self.pods[name]
            if name in self.records and self.records[name].reason.startswith(names.UPDATE_REASON):
                self.forget(name)  # A worker that ends for an update takes its record along.
            elif name in self.records:
                self.records[name].base = "DOWN"
        for name, pod in self.pods.items():
            if name not in staying:
                self.no_job_is_on(name)
                pod.phase = "ending"
            elif pod.phase == "starting" and pod.machine and not self.is_away(pod):
                pod.phase = "up"
                self.register(name)
            elif pod.phase == "up" and name in self.records and not self.hosts[pod.machine].dead:
                self.records[name].base = "IDLE"  # ReturnToService=2
            self.look_at_itself(name)
        for name in staying:
            self.made += name not in self.pods
            pod = self.pods.setdefault(name, Worker(self.made, self.revision, self.now, ""))
            pod.machine = pod.machine or next((host for host, each in self.hosts.items() if each.takes_pods), "")

    def is_away(self, pod: Worker) -> bool:
        return bool(pod.machine) and self.hosts[pod.machine].away_since is not None

    def is_sick(self, name: str) -> bool:
        return bool(self.pods[name].machine) and self.hosts[self.pods[name].machine].sick

    def look_at_itself(self, name: str) -> None:
        """A node drains itself and lifts that; when it leaves, its pod's end waits for what came."""
        pod, record = self.pods[name], self.records.get(name)
        if pod.phase != "up" or record is None or self.hosts[pod.machine].dead:
            return
        if self.is_sick(name) and (not record.drained or record.reason == names.NEW_REASON):
            record.drain(UNFIT, "root", self.now)
        if not self.is_sick(name) and record.reason == UNFIT and int(name[4:]) < self.size:
            record.undrain()

    def register(self, name: str) -> None:
        if name not in self.records:
            self.records[name] = Record(self.now)
            self.records[name].drain(names.NEW_REASON, "root", self.now)
        self.records[name].started, self.records[name].base = self.now, "IDLE"

    @stateful.rule(ordinal=ORDINALS, sick=st.booleans())
    def a_nodes_machine_gets_sick_or_recovers(self, ordinal: int, sick: bool) -> None:
        name = f"cpu-{ordinal}"
        if name in self.pods and self.pods[name].machine:
            self.hosts[self.pods[name].machine].sick = sick
            self.look_at_itself(name)

    @stateful.rule(number=ORDINALS)
    def a_machine_is_cordoned_or_given_back(self, number: int) -> None:
        self.hosts[f"m-{number}"].cordoned ^= True

    @stateful.rule(number=ORDINALS)
    def a_machine_is_tainted_or_given_back(self, number: int) -> None:
        self.hosts[f"m-{number}"].tainted ^= True

    @stateful.rule(number=ORDINALS, dead=st.booleans())
    def a_machine_goes_away_or_comes_back(self, number: int, dead: bool) -> None:
        host = self.hosts[f"m-{number}"]
        host.away_since, host.dead = (None, False) if host.away_since else (self.now, dead)
        for name in self.on(f"m-{number}") if host.dead else []:
            self.jobs = [job for job in self.jobs if job.node != name]
            if name in self.records:
                self.records[name].base = "DOWN"

    @stateful.precondition(lambda self: any(host.away_since for host in self.hosts.values()))
    @stateful.rule()
    def lost_machines_are_switched_off_and_fenced(self) -> None:
        for machine in [machine for machine, host in self.hosts.items() if host.away_since]:
            for name in self.on(machine):
                self.jobs = [job for job in self.jobs if job.node != name]
                del self.pods[name]
                if name in self.records:
                    self.records[name].base = "DOWN"
            self.hosts[machine] = Host()  # Another one of that name.

    def on(self, machine: str) -> list[str]:
        return [name for name, pod in self.pods.items() if pod.machine == machine]

    @stateful.rule()
    def kubectl_drain_goes_on(self) -> None:
        for name, pod in self.pods.items():
            # Undrained by an administrator, it waits for the jobs that came, in its preStop.
            undrained = name in self.records and not self.records[name].drained
            cordoned = bool(pod.machine) and self.hosts[pod.machine].cordoned
            if pod.evictable and cordoned and pod.phase == "up" and not undrained:
                self.no_job_is_on(name)
                pod.phase = "ending"

    def usable(self) -> list[str]:
        return [name for name, record in self.records.items() if not record.drained and record.base == "IDLE"]

    @stateful.precondition(lambda self: self.usable())
    @stateful.rule(data=st.data(), state=st.sampled_from(["RUNNING", "CONFIGURING"]))
    def a_job_starts(self, data: st.DataObject, state: str) -> None:
        self.jobs.append(Job(data.draw(st.sampled_from(self.usable())), state))

    @stateful.precondition(lambda self: self.jobs)
    @stateful.rule(data=st.data(), state=st.sampled_from(["RUNNING", "SUSPENDED", "COMPLETING", "gone", "gone"]))
    def a_job_goes_on(self, data: st.DataObject, state: str) -> None:
        data.draw(st.sampled_from(self.jobs)).state = state
        self.jobs = [job for job in self.jobs if job.state != "gone"]

    @stateful.rule(ordinal=ORDINALS, reason=st.sampled_from(["bad disk", names.SCALE_IN_REASON, names.UPDATE_REASON]))
    def an_administrator_drains(self, ordinal: int, reason: str) -> None:
        name = f"cpu-{ordinal}"
        if name in self.records:
            self.records[name].drain(reason, "root", self.now)
            self.foreign[name] = reason

    @stateful.rule(ordinal=ORDINALS)
    def an_administrator_undrains(self, ordinal: int) -> None:
        name = f"cpu-{ordinal}"
        pod = self.pods.get(name)
        # Undraining a node whose pod is ending is beyond what the operator can prevent.
        if name in self.records and pod and pod.phase == "up" and ordinal < self.size:
            self.records[name].undrain()
            self.foreign.pop(name, None)

    @stateful.precondition(lambda self: any(not host.takes_pods or host.sick for host in self.hosts.values()))
    @stateful.rule()
    def what_is_wrong_stays_so_and_jobs_end(self) -> None:
        self.jobs.clear()
        for _ in range(4):
            self.time_passes(45)
            self.the_operator_passes()
            self.restarts_of_unfit_nodes_keep_their_budgets()

    @stateful.precondition(lambda self: self.jobs)
    @stateful.rule(data=st.data())
    def the_operator_waits_for_a_long_job(self, data: st.DataObject) -> None:
        node = data.draw(st.sampled_from(self.jobs)).node
        self.wanted = data.draw(st.sampled_from([self.wanted, int(node[4:])]))
        self.revision += data.draw(st.integers(0, 1))
        for seconds in (1, 100, 250, 1):
            self.the_operator_passes()
            self.time_passes(seconds)

    # What the operator does, with faults.

    @stateful.rule(lost=st.sets(ORDINALS, max_size=3), later=st.sets(ORDINALS, max_size=3), done=st.integers(0, 4))
    def the_operator_passes_with_half_listings_and_dies(self, lost: set[int], later: set[int], done: int) -> None:
        self.one_pass(lost, later, done)

    @stateful.rule(edit=st.integers(0, MOST))
    def the_number_changes_during_a_pass(self, edit: int) -> None:
        self.one_pass(set(), set(), None, edit)

    @stateful.rule()
    def the_operator_passes(self) -> None:
        self.one_pass(set(), set(), None)

    def one_pass(self, lost: set[int], lost_later: set[int], done: int | None, edit: int | None = None) -> None:
        scale = self.scale()
        listing, evidence = self.listing(lost), None
        if any(part.needs_evidence(scale, listing) for part in (replicas, updates, machines, reactions)):
            evidence = Evidence(self.listing(lost_later), tuple(self.job_listing()))
            listing = {**slurm_nodes.with_jobs(listing, evidence.jobs)}
        self.wanted = self.wanted if edit is None else edit
        plan = reactions.plan(scale, listing, evidence, self.hold)
        assert len({*plan.restarts} - {*self.restarts}) <= self.reactions.at_once
        moves: list[object] = [
            *replicas.moves(scale, listing, evidence),
            *updates.moves(scale, listing, evidence, self.hold),
            *machines.moves(scale, listing, evidence),
            *plan.moves,
        ]
        for move in moves[:done]:
            self.carry_out(move, scale)
        if done is None:
            self.restarts = plan.restarts
        self.now += datetime.timedelta(seconds=2)

    def scale(self) -> replicas.Scale:
        pods = {
            name: Pod(
                *(name, "worker", pod.phase == "up" and not self.is_sick(name) and not self.is_away(pod)),
                running=pod.phase != "starting",
                terminating=pod.phase == "ending",
                created=pod.created,
                revision=str(pod.revision),
                resource_version=str(pod.number),
                machine=pod.machine,
                evictable=pod.evictable,
            )
            for name, pod in self.pods.items()
        }
        return replicas.Scale(
            *("cpu", self.wanted, self.size, str(self.version), pods, self.now),
            revision=str(self.revision),
            update=self.update,
            removal=self.removal,
            reactions=self.reactions,
            restarts=self.restarts,
            machines={name: self.machine(host) for name, host in self.hosts.items()},
        )

    def machine(self, host: Host) -> Machine:
        keys = [key for key, there in (("maintenance", host.tainted), (names.UNFIT_TAINT, host.ours)) if there]
        taints = tuple(Taint(key, "NoSchedule") for key in keys)
        return Machine(cordoned=host.cordoned or host.ours, taints=taints, away_since=host.away_since)

    def listing(self, lost: set[int]) -> dict[str, SlurmNode]:
        return {name: self.seen(name) for name in self.records if int(name[4:]) not in lost}

    def seen(self, name: str) -> SlurmNode:
        record = self.records[name]
        # A suspended job's node reads IDLE without processors allocated.
        running = sum(job.node == name and job.state in ("RUNNING", "CONFIGURING") for job in self.jobs)
        states = {"MIXED" if running else record.base, "DYNAMIC_NORM"} | ({"DRAIN"} if record.drained else set())
        states |= {"COMPLETING"} if any(job.node == name and job.state == "COMPLETING" for job in self.jobs) else set()
        words = (record.reason, record.user, running, record.started, record.since, record.comment)
        return SlurmNode(name, frozenset(states), *words)

    def job_listing(self) -> list[SlurmJob]:
        rows = enumerate(self.jobs)
        return [SlurmJob(n, frozenset({job.state}), frozenset({"main"}), frozenset({job.node})) for n, job in rows]

    def carry_out(self, move: object, scale: replicas.Scale) -> None:
        """As actions.move does it: each change against what is there at that moment."""
        match move:
            case replicas.SetReplicas():
                if move.resource_version == str(self.version):
                    self.size, self.version = move.replicas, self.version + 1
            case replicas.Drain(node=name):
                if not self.records[name].drained:
                    self.records[name].drain(move.reason, "slurm", self.now)
                    updating = [each for each in scale.members() if each in self.records and self.is_updating(each)]
                    within = len(updating) <= self.update.max_unavailable
                    assert within or move.reason != names.UPDATE_REASON, f"too many at once: {updating}"
                    assert not move.reason.endswith("is not ready") or self.may_be_drained_as_away(name)
            case machines.Comment(node=name):
                self.records[name].comment = move.text
            case replicas.Undrain(node=name):
                ours = (slurm_nodes.is_our_drain, slurm_nodes.is_machine_drain, slurm_nodes.is_new)
                if any(test(self.seen(name)) for test in ours):
                    self.records[name].undrain()
            case machines.SetEvictable(node=name):
                if str(self.pods[name].number) == move.resource_version:
                    self.pods[name].evictable = move.evictable
            case replicas.TakeJobs(node=name):
                if slurm_nodes.is_our_drain(self.seen(name), *slurm_nodes.WAITING_REASONS):
                    self.take_jobs(name)
            case replicas.DeleteRecord(node=name):
                assert name not in self.pods, f"the record of {name} goes before its pod"
                self.no_job_is_on(name)
                self.forget(name)
            case updates.RestartPod(node=name) | reactions.RestartUnfit(node=name) | reactions.ReplaceUnfit(node=name):
                replaces = isinstance(move, reactions.ReplaceUnfit)
                if not isinstance(move, updates.RestartPod):
                    noted = [each.replace for each in self.restarts if each.node == name]
                    assert noted[-1:] == [replaces], f"{name} is repaired without a note: {noted}"
                    Model.repairs[replaces] = Model.repairs.get(replaces, 0) + 1
                if isinstance(move, reactions.ReplaceUnfit) and move.cordon:
                    host = self.hosts[move.machine]
                    assert move.machine == self.pods[name].machine
                    assert not host.tainted or host.cordoned, f"{move.machine} was tainted by somebody else"
                    host.ours = True
                if self.pods[name].phase != "ending" and str(self.pods[name].number) == move.resource_version:
                    self.no_job_is_on(name)
                    assert name not in self.records or self.records[name].drained, f"{name} serves and is restarted"
                    assert name not in self.foreign, f"{name} is another's"
                    self.pods[name].phase = "ending"

    def may_be_drained_as_away(self, name: str) -> bool:
        """Whether its machine had its time, and no more machines are away than the breaker allows."""
        since, away = self.hosts[self.pods[name].machine].away_since, sum(map(self.is_away, self.pods.values()))
        shared = away > 1 and away * 100 > self.reactions.breaker_percent * len(self.pods)
        patience = datetime.timedelta(seconds=self.reactions.after_seconds)
        return since is not None and self.now >= since + patience and not shared

    def take_jobs(self, name: str) -> None:
        record = self.records[name]
        leaves = int(name[4:]) >= min(self.wanted, self.size)
        allowed = {self.removal.deadline_seconds, self.update.deadline_seconds} - {None}
        waited = (self.now - record.since).total_seconds()
        assert allowed, f"{name} loses jobs without a deadline"
        assert waited > min(allowed), f"{name} ({leaves=}) loses jobs after {waited} s"
        self.jobs = [job for job in self.jobs if job.node != name]
        record.base = "DOWN"
        record.drain(f"{record.reason}{names.DEADLINE_PASSED}", "slurm", self.now)

    def is_updating(self, name: str) -> bool:
        return updates.is_updating(self.seen(name))

    def forget(self, name: str) -> None:
        del self.records[name]
        self.foreign.pop(name, None)

    def no_job_is_on(self, name: str) -> None:
        assert not [job for job in self.jobs if job.node == name], f"{name} goes under a job"

    # What must always hold.

    @stateful.invariant()
    def drains_of_others_stay(self) -> None:
        Model.steps += 1
        for name, reason in self.foreign.items():
            record = self.records[name]
            assert (record.drained, record.reason, record.user) == (True, reason, "root")

    @stateful.invariant()
    def no_node_serves_while_it_is_removed(self) -> None:
        for name, pod in self.pods.items():
            leaving = pod.phase == "ending" or (pod.phase == "up" and int(name[4:]) >= self.size)
            record = self.records.get(name)
            assert not leaving or record is None or record.drained, f"{name} takes jobs and is being removed"

    @stateful.invariant()
    def restarts_of_unfit_nodes_keep_their_budgets(self) -> None:
        hour = [each for each in self.restarts if each.at > self.now - datetime.timedelta(hours=1)]
        assert len(hour) <= REACTIONS.per_hour
        for node in {each.node for each in self.restarts}:
            tried = [each.replace for each in self.restarts if each.node == node]
            assert tried.count(False) <= REACTIONS.attempts
            assert tried.count(True) <= 1

    def teardown(self) -> None:
        """Faults stop, jobs end, machines are well, administrators take back what only looks like ours."""
        self.jobs.clear()
        for host in self.hosts:
            self.hosts[host] = Host()
        self.update, self.hold = dataclasses.replace(self.update, paused=False), ""
        for name, reason in [*self.foreign.items()]:
            if reason.startswith(names.REASON_PREFIX):
                del self.foreign[name]
                self.records[name].undrain()
        for _ in range(8 * MOST):
            self.the_operator_passes()
            self.kubernetes_steps()
            self.time_passes(60)
            self.drains_of_others_stay()
        wanted = {f"cpu-{ordinal}" for ordinal in range(self.wanted)}
        assert (self.size, set(self.records), set(self.pods)) == (self.wanted, wanted, wanted)
        old = [name for name in wanted if self.pods[name].revision != self.revision and name not in self.foreign]
        assert not old, f"of an old template: {old}"
        drained = [name for name in wanted if self.records[name].drained and name not in self.foreign]
        assert not drained, f"still drained: {[(name, self.records[name]) for name in drained]}"


def test_nothing_that_happens_costs_a_job_and_all_converges() -> None:
    settings = hypothesis.settings(
        max_examples=250,
        stateful_step_count=50,
        derandomize=True,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    Model.steps, Model.repairs = 0, {}
    stateful.run_state_machine_as_test(Model, settings=settings)
    assert Model.steps >= LEAST_STEPS
    assert Model.repairs.keys() == {False, True}, "every rung was reached"
