"""The walk of the model, and what must hold after each of its steps."""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Callable, Sequence
from typing import ClassVar

from hypothesis import stateful
from hypothesis import strategies as st
from slurm_operator import execute
from slurm_operator.actions import Action, DeletePod, Drain, Purpose, Undrain
from slurm_operator.clients import lease
from slurm_operator.clients.kubernetes import KubernetesError
from slurm_operator.decide.node_sets import full_listing, remediate
from slurm_operator.decide.node_sets.node_set import decide
from slurm_operator.decide.nodes import slurm_nodes
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.findings import Finding
from slurm_operator.state.resources import RemovalPolicy, Restart, UpdatePolicy, Window

from contract import names, reasons
from contract.policies import ReactionPolicy
from tests.operator.played.played_clients import LeaseFor, PlayedApi, PlayedRest, finished
from tests.operator.played.played_cluster import (
    ADMINISTRATOR,
    ASKED,
    FIRST_CHECK,
    ISSUED,
    MOST,
    OUR_REASONS,
    TOO_LARGE,
    UNFIT,
    UNTESTED,
    WITH_PROCESSES,
    Host,
    Job,
    PlayedCluster,
)

MINUTE = 60
DAY = datetime.timedelta(days=1)
ORDINALS = st.integers(0, MOST - 1)
REASONS = st.sampled_from(["bad disk", reasons.SCALE_IN, reasons.UPDATE, reasons.NEW, UNFIT])
DEADLINES = st.sampled_from([None, None, 0, 300])
OPEN = datetime.timedelta(seconds=600)
WINDOWS: dict[str, tuple[datetime.timedelta | None, bool]] = {
    "none": (None, False),
    "open": (datetime.timedelta(0), True),
    "opens soon": (datetime.timedelta(seconds=300), False),
    "next week": (-OPEN, True),
    "past": (-OPEN, False),
}
"""By name: time from now until a window opens, and if it opens each week."""
REACTIONS = ReactionPolicy(restart=True, after_seconds=60, attempts=2, at_once=1, per_hour=2, breaker_percent=60)


class Model(stateful.RuleBasedStateMachine):
    """The history of one node set, and the operator's reconciles of it."""

    steps: ClassVar[int] = 0
    repairs: ClassVar[dict[bool, int]] = {}
    """Numbers of repairs: restarts (false), replacements (true)."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = PlayedCluster()
        self.api, self.rest = PlayedApi(self.cluster), PlayedRest(self.cluster)
        self.hold = ""
        self.done: list[Restart] = []
        self.taken: set[str] = set()
        """Nodes that an update took out of service, and that have not worked since."""
        self.told: tuple[Finding, ...] = ()

    @stateful.initialize(
        size=st.integers(1, MOST),
        room=st.sampled_from([1, 2, 3, "25%", "60%"]),
        update=DEADLINES,
        removal=DEADLINES,
        steps=st.sampled_from([(True, False), (True, True), (False, True)]),
    )
    def a_set_runs(
        self, size: int, room: int | str, update: int | None, removal: int | None, steps: tuple[bool, bool]
    ) -> None:
        self.cluster.reactions = dataclasses.replace(REACTIONS, restart=steps[0], replace=steps[1])
        percent = int(room.removesuffix("%")) if isinstance(room, str) else None
        self.cluster.update = UpdatePolicy(1 if isinstance(room, str) else room, update, percent=percent)
        self.cluster.removal = RemovalPolicy(removal)
        self.cluster.run(size)

    # What Kubernetes, users, administrators and time do.

    @stateful.rule(size=st.integers(0, MOST))
    def edit_the_number(self, size: int) -> None:
        self.cluster.wanted = size

    @stateful.rule(size=st.integers(0, MOST), later=st.integers(0, MOST))
    def edit_the_number_twice(self, size: int, later: int) -> None:
        self.cluster.wanted = size
        self.the_operator_passes()
        self.cluster.wanted = later

    @stateful.rule(by=st.sampled_from([-1, 1]))
    def change_the_template(self, by: int) -> None:
        self.cluster.revision = max(0, self.cluster.revision + by)

    @stateful.rule()
    def change_the_template_to_one_that_does_not_work(self) -> None:
        self.cluster.revision += 1
        self.cluster.broken.add(self.cluster.revision)

    @stateful.rule(
        paused=st.booleans(),
        hold=st.sampled_from(["", "pulumi up is under way"]),
        tested=st.booleans(),
        features=st.sampled_from([None, None, (), ("avx512",)]),
    )
    def pause_or_go_on_and_perhaps_declare_first_checks_and_features(
        self, paused: bool, hold: str, tested: bool, features: tuple[str, ...] | None
    ) -> None:
        self.cluster.update, self.hold = dataclasses.replace(self.cluster.update, paused=paused), hold
        self.cluster.first_checks, self.cluster.features = (FIRST_CHECK,) if tested else (), features

    @stateful.rule(window=st.sampled_from([*WINDOWS]), by=st.integers(0, 1))
    def edit_the_window_and_perhaps_the_template(self, window: str, by: int) -> None:
        self.cluster.revision += by
        opens, weekly = WINDOWS[window]
        found = None if opens is None else Window(self.cluster.now + opens, OPEN, weekly=weekly)
        self.cluster.update = dataclasses.replace(self.cluster.update, window=found)

    @stateful.rule(seconds=st.sampled_from([1, 30, 90, 400, 4000]))
    def time_passes(self, seconds: int) -> None:
        self.cluster.now += datetime.timedelta(seconds=seconds)

    @stateful.rule(memory=st.integers(1, 3))
    def change_the_size_of_nodes(self, memory: int) -> None:
        self.cluster.memory = memory
        self.cluster.revision += 1

    @stateful.rule()
    def slurmctld_starts_anew(self) -> None:
        self.cluster.slurmctld_starts_anew()

    @stateful.rule(ordinals=st.sets(ORDINALS, min_size=1, max_size=3))
    def slurmctld_forgets_nodes(self, ordinals: set[int]) -> None:
        self.cluster.slurmctld_forgets(f"cpu-{ordinal}" for ordinal in ordinals)

    @stateful.rule()
    def kubernetes_steps(self) -> None:
        self.cluster.long_checks_pass()
        self.cluster.kubernetes_steps()

    @stateful.rule()
    def kubectl_drain_goes_on(self) -> None:
        self.cluster.kubectl_drain_goes_on()

    @stateful.rule(ordinal=ORDINALS, sick=st.booleans())
    def a_nodes_machine_gets_sick_or_recovers(self, ordinal: int, sick: bool) -> None:
        name = f"cpu-{ordinal}"
        if name in self.cluster.pods and self.cluster.pods[name].k8s_node:
            self.cluster.hosts[self.cluster.pods[name].k8s_node].sick = sick
            self.cluster.look_at_itself(name)

    @stateful.rule(nodes=st.integers(2, MOST), stay=st.booleans())
    def the_machines_of_the_first_nodes_get_sick_together(self, nodes: int, stay: bool) -> None:
        for ordinal in range(nodes):
            self.a_nodes_machine_gets_sick_or_recovers(ordinal, sick=True)
        if stay:
            self.what_is_wrong_stays_so_and_jobs_end(pods_end=False)

    @stateful.rule(number=ORDINALS)
    def a_machine_is_cordoned_or_given_back(self, number: int) -> None:
        self.cluster.hosts[f"m-{number}"].cordoned ^= True

    @stateful.rule(number=ORDINALS)
    def a_machine_is_tainted_or_given_back(self, number: int) -> None:
        self.cluster.hosts[f"m-{number}"].tainted ^= True

    @stateful.rule(number=ORDINALS, says=st.sampled_from(["True", "True", "False", "Unknown", ""]))
    def a_condition_of_a_machine_changes(self, number: int, says: str) -> None:
        self.cluster.hosts[f"m-{number}"].says = says

    @stateful.rule(number=ORDINALS, then=st.sampled_from(["Unknown", ""]))
    def a_machine_fails_and_then_nobody_knows(self, number: int, then: str) -> None:
        cluster, host = self.cluster, self.cluster.hosts[f"m-{number}"]
        host.says = "True"
        self.the_operator_passes()
        there = [name for name, pod in cluster.pods.items() if pod.k8s_node == f"m-{number}" and pod.phase == "up"]
        serving = [name for name in there if name in cluster.usable()]
        assert not serving, f"{serving} take jobs on a machine whose condition fails"
        host.says = then
        self.the_operator_passes()

    @stateful.rule(number=ORDINALS, dead=st.booleans())
    def a_machine_goes_away_or_comes_back(self, number: int, dead: bool) -> None:
        host = self.cluster.hosts[f"m-{number}"]
        host.away_since, host.dead = (None, False) if host.away_since else (self.cluster.now, dead)
        if host.dead:
            self.cluster.die_with(f"m-{number}")

    @stateful.precondition(lambda self: any(host.away_since for host in self.cluster.hosts.values()))
    @stateful.rule()
    def lost_machines_are_switched_off_and_fenced(self) -> None:
        for k8s_node in [k8s_node for k8s_node, host in self.cluster.hosts.items() if host.away_since]:
            for name in self.cluster.die_with(k8s_node):
                del self.cluster.pods[name]
            self.cluster.hosts[k8s_node] = Host()  # Another one of that name.

    @stateful.precondition(lambda self: self.cluster.usable())
    @stateful.rule(data=st.data(), state=st.sampled_from(["RUNNING", "CONFIGURING"]))
    def a_job_starts(self, data: st.DataObject, state: str) -> None:
        self.cluster.jobs.append(Job(data.draw(st.sampled_from(self.cluster.usable())), state))

    @stateful.precondition(lambda self: self.cluster.records)
    @stateful.rule(data=st.data())
    def a_job_that_names_a_node_waits(self, data: st.DataObject) -> None:
        self.cluster.jobs.append(Job("", "PENDING", data.draw(st.sampled_from(sorted(self.cluster.records)))))

    @stateful.rule()
    def jobs_start_on_the_nodes_that_they_named(self) -> None:
        usable = self.cluster.usable()
        for job in [job for job in self.cluster.jobs if job.state == "PENDING" and job.names in usable]:
            job.node, job.state = job.names, "RUNNING"

    @stateful.precondition(lambda self: self.cluster.records)
    @stateful.rule(data=st.data(), flags=st.sampled_from([(), ("RESERVED",), ("RESERVED", "MAINTENANCE")]))
    def a_reservation_begins_or_ends(self, data: st.DataObject, flags: tuple[str, ...]) -> None:
        name = data.draw(st.sampled_from(sorted(self.cluster.records)))
        if self.cluster.reserved.pop(name, None) is None:
            self.cluster.reserved[name] = frozenset(flags)

    @stateful.precondition(lambda self: self.cluster.usable())
    @stateful.rule()
    def an_array_or_a_heterogeneous_job_starts(self) -> None:
        self.cluster.jobs += [Job(name) for name in self.cluster.usable()[:3]]

    @stateful.rule()
    def many_jobs_are_submitted_or_end(self) -> None:
        self.cluster.is_queue_deep ^= True

    @stateful.precondition(lambda self: self.cluster.jobs)
    @stateful.rule(data=st.data(), state=st.sampled_from([*WITH_PROCESSES, "gone", "gone"]))
    def a_job_goes_on(self, data: st.DataObject, state: str) -> None:
        job = data.draw(st.sampled_from(self.cluster.jobs))
        job.state = state if job.node else "gone"
        self.cluster.jobs = [job for job in self.cluster.jobs if job.state != "gone"]

    @stateful.rule(ordinal=ORDINALS, reason=REASONS)
    def an_administrator_drains(self, ordinal: int, reason: str) -> None:
        name = f"cpu-{ordinal}"
        if name in self.cluster.records:
            self.cluster.records[name].drain(reason, ADMINISTRATOR, self.cluster.now)
            self.cluster.records[name].features |= {"big"}
            self.cluster.foreign[name] = reason

    @stateful.rule(ordinal=ORDINALS)
    def an_administrator_sets_a_node_to_fail(self, ordinal: int) -> None:
        name = f"cpu-{ordinal}"
        if name in self.cluster.records:
            record = self.cluster.records[name]
            record.drain("rma-123", ADMINISTRATOR, self.cluster.now)
            record.drained, record.failing = False, True
            self.cluster.foreign[name] = "rma-123"

    @stateful.rule(ordinal=ORDINALS)
    def an_administrator_reboots(self, ordinal: int) -> None:
        record = self.cluster.records.get(f"cpu-{ordinal}")
        if record and not record.reboot:
            record.reboot = ASKED

    @stateful.rule()
    def slurm_issues_reboots(self) -> None:
        self.cluster.slurm_issues_reboots()

    @stateful.rule(ordinal=ORDINALS)
    def an_administrator_sets_a_node_down(self, ordinal: int) -> None:
        """Its jobs end with that, which is his word; the node is his until its slurmd registers."""
        name = f"cpu-{ordinal}"
        if name in self.cluster.records and self.cluster.records[name].reboot != ISSUED:
            record = self.cluster.records[name]
            record.base, record.reason, record.user = "DOWN", "bad DIMM", ADMINISTRATOR
            self.cluster.foreign[name] = "bad DIMM"
            self.cluster.jobs = [job for job in self.cluster.jobs if job.node != name]

    @stateful.rule(ordinal=ORDINALS)
    def an_administrator_undrains(self, ordinal: int) -> None:
        name = f"cpu-{ordinal}"
        pod = self.cluster.pods.get(name)
        # Undraining a node whose pod is ending is beyond what the operator can prevent.
        if name in self.cluster.records and pod and pod.phase == "up" and ordinal < self.cluster.size:
            if self.cluster.records[name].refused:
                return  # Slurm lifts no drain of a node that it refuses (26.05, _valid_node_state_change).
            self.cluster.records[name].undrain()
            self.cluster.foreign.pop(name, None)
            if pod.evictable:
                self.one_pass()  # A job that starts before this one is what docs/limits.md says of an eviction.

    @stateful.precondition(lambda self: any(each.is_bad for each in self.cluster.hosts.values()))
    @stateful.rule(pods_end=st.booleans())
    def what_is_wrong_stays_so_and_jobs_end(self, pods_end: bool) -> None:
        self.cluster.jobs.clear()
        for _ in range(4):
            self.time_passes(45)
            self.the_operator_passes()
            self.restarts_of_unfit_nodes_keep_their_budgets()
            if pods_end:
                self.kubernetes_steps()

    @stateful.precondition(lambda self: any(each.sick for each in self.cluster.hosts.values()))
    @stateful.rule(ordinal=ORDINALS)
    def a_node_stays_sick_for_hours_wherever_it_starts(self, ordinal: int) -> None:
        self.cluster.jobs.clear()
        for _ in range(5):
            self.a_nodes_machine_gets_sick_or_recovers(ordinal, sick=True)
            self.time_passes(2000)
            members = self.cluster.members()
            self.the_operator_passes()
            if f"cpu-{ordinal}" in members:
                self.who_is_not_repaired_is_told_of(f"cpu-{ordinal}")
            for _ in ("its drain becomes ours", "its pod goes"):
                self.the_operator_passes()
            for _ in ("its pod ends", "another is made", "it starts"):
                self.kubernetes_steps()

    @stateful.precondition(lambda self: self.cluster.usable() or any(job.node for job in self.cluster.jobs))
    @stateful.rule(data=st.data())
    def the_operator_waits_for_a_long_job(self, data: st.DataObject) -> None:
        """One that runs already, or begins now."""
        there = [job for job in self.cluster.jobs if job.node]
        job = data.draw(st.sampled_from([*there, *map(Job, self.cluster.usable())]))
        self.cluster.jobs += [] if any(job is each for each in there) else [job]
        node, job.state = job.node, data.draw(st.sampled_from([job.state, "SUSPENDED"]))
        self.cluster.wanted = data.draw(st.sampled_from([self.cluster.wanted, int(node[4:])]))
        self.cluster.revision += data.draw(st.integers(0, 1))
        self.cluster.is_queue_deep |= data.draw(st.booleans())
        if data.draw(st.sampled_from([False, False, True])):
            self.cluster.slurmctld_forgets([node])
        for seconds in (1, 100, 250, 1):
            self.the_operator_passes()
            self.time_passes(seconds)

    @stateful.rule(ordinal=ORDINALS, reason=st.sampled_from([reasons.NEW, *OUR_REASONS]))
    def a_machine_is_tainted_while_its_node_is_to_serve_again(self, ordinal: int, reason: str) -> None:
        name = f"cpu-{ordinal}"
        if name not in {*self.cluster.working()} & {*self.cluster.members()}:
            return
        host = self.cluster.hosts[self.cluster.pods[name].k8s_node]
        self.cluster.records[name].drain(reason, names.SLURM_USER, self.cluster.now)
        self.cluster.pods[name].revision, host.tainted = self.cluster.revision, True
        self.cluster.pods[name].memory = self.cluster.records[name].memory = self.cluster.memory
        self.the_operator_passes()
        words = self.cluster.records[name].reason
        assert words.startswith(reasons.NODE), f"{name} never leaves its Kubernetes node, for its drain says {words}"

    # What the operator does, with faults.

    @stateful.rule(lost=st.sets(ORDINALS, max_size=3), later=st.sets(ORDINALS, max_size=3), checks=st.integers(0, 6))
    def the_operator_passes_with_half_listings_and_dies(self, lost: set[int], later: set[int], checks: int) -> None:
        # What two listings lack is nowhere to the operator, as it is to slurmctld.
        self.one_pass(lost, later - lost, checks)

    @stateful.rule(edit=st.none() | st.integers(0, MOST), ordinal=ORDINALS, reason=REASONS, same=st.booleans())
    def others_act_between_a_decision_and_its_action(
        self, edit: int | None, ordinal: int, reason: str, same: bool
    ) -> None:
        """An administrator drains a node, perhaps one for which something was decided, and a user edits the number."""

        def act(decided: Sequence[Action]) -> None:
            self.cluster.wanted = self.cluster.wanted if edit is None else edit
            about = sorted({int(each.node[4:]) for each in decided if isinstance(each, Undrain | Drain)})
            self.an_administrator_drains(about[ordinal % len(about)] if about and same else ordinal, reason)

        self.one_pass(meanwhile=act)

    @stateful.rule(recovered=st.sets(ORDINALS, min_size=1), starts=st.booleans())
    def nodes_recover_between_a_decision_and_its_action(self, recovered: set[int], starts: bool) -> None:
        def act(_: Sequence[Action]) -> None:
            for ordinal in recovered:
                self.a_nodes_machine_gets_sick_or_recovers(ordinal, sick=False)
            self.cluster.jobs += [Job(name) for name in self.cluster.usable() if starts and int(name[4:]) in recovered]

        self.one_pass(meanwhile=act)

    @stateful.rule()
    def the_operator_passes(self) -> None:
        self.one_pass()

    def one_pass(
        self,
        lost: set[int] | None = None,
        lost_later: set[int] | None = None,
        checks: float = math.inf,
        meanwhile: Callable[[Sequence[Action]], None] = lambda _: None,
    ) -> None:
        """One pass, as node_sets.py makes it.

        Args:
            lost: ordinals that the first listing of nodes lacks.
            lost_later: ordinals that the full one lacks.
            checks: how often the pass finds its lease to be its own before it dies.
            meanwhile: what others do once that is decided.
        """
        cluster = self.cluster
        state = dataclasses.replace(cluster.state(), hold=self.hold)
        listing, found = cluster.listing(lost or set()), None
        if full_listing.is_needed(state.seen(listing)):
            full = cluster.listing(lost_later or set())
            found = full_listing.build(full, cluster.job_listing(), counts_memory=True, named=cluster.named())
            assert found
            listing = {**slurm_nodes.with_jobs(listing, found.jobs)}
        decision = decide(state.seen(listing, found))
        assert not decision.defects
        drained = [each.node for each in decision.actions if isinstance(each, Drain)]
        assert len(drained) == len({*drained}), f"drained twice at once: {drained}"
        plan = decision.plan
        assert plan
        self.told, noted = plan.findings, {*plan.restarts} - {*cluster.restarts}
        lately = {each.node for each in plan.restarts if each.at > cluster.now - remediate.SETTLING}
        away = sorted(lately & {*cluster.members()} - {*cluster.working()})
        assert not noted or len(away) <= cluster.reactions.at_once, f"too many under repair at once: {away}"
        unfit = [name for name in cluster.members() if name in listing and listing[name].reason == UNFIT]
        unfit = [name for name in unfit if name not in cluster.foreign]
        shared = len(unfit) > 1 and len(unfit) * 100 > cluster.reactions.breaker_percent * len(cluster.members())
        assert not (noted and shared), f"{noted} are repaired while {unfit} are unfit together"
        for each in noted:
            self.the_ladder_is_climbed(each, plan.restarts)
        meanwhile(decision.actions)
        ours = LeaseFor(checks)
        try:
            for decided in decision.actions:
                self.perform(decided, ours, state)
            ours.check()
            cluster.restarts, cluster.updating = plan.restarts, decision.updating
            cluster.drains = decision.drains
        except (lease.NotLeading, KubernetesError):
            pass  # The next pass decides anew.
        cluster.now += datetime.timedelta(seconds=2)

    def perform(self, decided: Action, ours: lease.Lease, state: NodeSetState) -> None:
        if isinstance(decided, DeletePod) and decided.purpose in (Purpose.ANEW, Purpose.ELSEWHERE):
            replaces = decided.purpose is Purpose.ELSEWHERE
            noted = [each for each in self.cluster.restarts if each.node == decided.pod]
            assert [each.replace for each in noted[-1:]] == [replaces], f"{decided.pod} is repaired without a note"
        begins = decided.node if isinstance(decided, Drain) and decided.reason == reasons.UPDATE else ""
        too_soon = begins and self.serves_outside_of_the_window(begins)
        if isinstance(decided, DeletePod) and decided.purpose is Purpose.UPDATE:
            self.no_record_promises_more_than_a_deep_queue_lets_go(decided.pod)
        if isinstance(decided, Undrain) and state.first_checks:
            self.what_comes_is_tested_before_it_serves(decided.node)
        worked, taken = self.cluster.working(), self.taken | self.cluster.updating
        done = finished(execute.Executor(self.api, ours).perform(self.rest, decided))
        assert not (done and too_soon), f"{begins} is begun on outside of {self.cluster.update.window}"
        if done and isinstance(decided, DeletePod) and decided.purpose in (Purpose.ANEW, Purpose.ELSEWHERE):
            replaces = decided.purpose is Purpose.ELSEWHERE
            Model.repairs[replaces] = Model.repairs.get(replaces, 0) + 1
            self.done += [each for each in self.cluster.restarts if each.node == decided.pod][-1:]
        if done and begins:
            pod = self.cluster.pods.get(begins)
            self.taken |= {begins} if pod and pod.k8s_node else set()
            self.what_works_again_is_taken_no_more()
            out = [name for name in self.taken if self.cluster.is_well_but_for_us(name)]
            # One that comes back from its repair, say, and does not work is out already: its drain takes nothing away.
            takes_one = begins in worked or begins not in taken
            too_many = len(out) > state.node_set.update.room(state.wanted) and takes_one
            assert not too_many, f"too many at once: {out}"

    def what_comes_is_tested_before_it_serves(self, name: str) -> None:
        record = self.cluster.records[name]
        idle = all(job.node != name for job in self.cluster.jobs)
        comes = record.reason == reasons.NEW or record.reason.startswith(reasons.REPAIR)
        comes |= idle and record.reason.startswith(reasons.NODE)
        assert not (comes and record.user == names.SLURM_USER), f"{name} serves untested after {record.reason}"

    def no_record_promises_more_than_a_deep_queue_lets_go(self, name: str) -> None:
        """An update makes no pod that Slurm refuses until the queue can be listed; repairs and evictions may."""
        record = self.cluster.records.get(name)
        is_larger = record is not None and record.memory > self.cluster.memory
        assert not (is_larger and self.cluster.is_queue_deep), f"{name} would be held in a deep queue"

    def serves_outside_of_the_window(self, name: str) -> bool:
        """Return whether the window is closed, and a node serves or did so."""
        window, pod, record = self.cluster.update.window, self.cluster.pods.get(name), self.cluster.records[name]
        if window is None or record.reason in (reasons.NEW, UNTESTED) or (pod and not pod.k8s_node):
            return False
        since = self.cluster.now - window.first
        since = since % datetime.timedelta(weeks=1) if window.weekly else since
        return not datetime.timedelta(0) <= since < window.duration

    @stateful.invariant()
    def what_works_again_is_taken_no_more(self) -> None:
        self.taken &= {*self.cluster.members()} - {*self.cluster.working()} - self.cluster.foreign.keys()

    def the_ladder_is_climbed(self, noted: Restart, restarts: tuple[Restart, ...]) -> None:
        """Restarts first, as many as the policy has; then one other Kubernetes node; then nothing for a day."""
        policy = self.cluster.reactions
        # What was done, whatever the operator remembers of it.
        day = [each for each in self.done if each.node == noted.node and noted.at - each.at < DAY]
        assert not any(each.replace for each in day), f"{noted.node} was taken to another host already"
        if not noted.replace:
            assert len(day) < policy.attempts, f"{noted.node} was restarted {len(day)} times already"
        elif policy.restart and self.cluster.records[noted.node].reason == UNFIT:
            tried = [each.replace for each in restarts if each.node == noted.node]
            assert tried.count(False) == policy.attempts, f"{noted.node} leaves its host after {tried}"

    def who_is_not_repaired_is_told_of(self, name: str) -> None:
        if self.hold or not self.cluster.is_unfit_and_idle(name) or self.cluster.state().workers[name].repair:
            return
        told = [each.message for each in self.told if name in each.message or each.reason == "BreakerOpen"]
        assert told, f"{name} is unfit, and nothing is done or said about it"

    # What must always hold.

    @stateful.invariant()
    def drains_of_others_stay(self) -> None:
        Model.steps += 1
        for record, reason in ((self.cluster.records[name], reason) for name, reason in self.cluster.foreign.items()):
            assert record.is_held or record.base == "DOWN"
            assert record.reason in (reason, TOO_LARGE) or record.reason.endswith(f": {reason}")
            assert record.user in (ADMINISTRATOR, names.SLURM_USER), "only a reboot and a refusal are in Slurm's name"

    @stateful.invariant()
    def no_node_serves_while_it_is_removed(self) -> None:
        for name, pod in self.cluster.pods.items():
            leaving = pod.phase == "ending" or (pod.phase == "up" and int(name[4:]) >= self.cluster.size)
            record = self.cluster.records.get(name)
            out = record is None or record.is_held or record.reboot == ISSUED
            assert not leaving or out, f"{name} takes jobs and is being removed"

    @stateful.invariant()
    def restarts_of_unfit_nodes_keep_their_budgets(self) -> None:
        hour = [each for each in self.cluster.restarts if each.at > self.cluster.now - datetime.timedelta(hours=1)]
        assert len(hour) <= REACTIONS.per_hour
        for node in {each.node for each in self.cluster.restarts}:
            tried = [each.replace for each in self.cluster.restarts if each.node == node]
            assert tried.count(False) <= REACTIONS.attempts
            assert tried.count(True) <= 1

    def teardown(self) -> None:
        """Faults stop, jobs end, Kubernetes nodes are well, administrators take back what only looks like ours."""
        cluster, self.hold = self.cluster, ""
        cluster.jobs.clear()
        cluster.reserved.clear()
        cluster.broken.clear()
        cluster.update = dataclasses.replace(cluster.update, paused=False, window=None)
        self.one_bad_machine_holds_up_no_other()
        cluster.hosts = {name: Host() for name in cluster.hosts}
        self.the_operator_passes()
        lost = [name for name, said in cluster.foreign.items() if cluster.records[name].reason == TOO_LARGE != said]
        assert not lost, f"nobody reads any more why these are drained: {lost}"
        for name in [name for name, reason in cluster.foreign.items() if reason.startswith(reasons.PREFIX)]:
            del cluster.foreign[name]
            cluster.records[name].undrain()
        if cluster.is_queue_deep:
            self.all_settles()
            wanted = {f"cpu-{ordinal}" for ordinal in range(cluster.wanted)}
            assert (cluster.size, set(cluster.pods)) == (cluster.wanted, wanted), "records alone wait for the queue"
            # A repair may have brought a pod that is smaller than its record. The record goes once the queue is listed.
            smaller = {name for name, record in cluster.records.items() if record.refused}
            held = [name for name in wanted - cluster.foreign.keys() - smaller if cluster.records[name].is_held]
            assert not held, f"held in a deep queue: {held}"
            cluster.is_queue_deep = False
        self.all_settles()
        wanted = {f"cpu-{ordinal}" for ordinal in range(cluster.wanted)}
        # What somebody said of a node that was removed is there when it comes back.
        kept = cluster.foreign.keys() - wanted
        assert (cluster.size, set(cluster.records), set(cluster.pods)) == (cluster.wanted, wanted | kept, wanted)
        ours = wanted - cluster.foreign.keys()
        old = [name for name in ours if cluster.pods[name].revision != cluster.revision]
        assert not old, f"of an old template: {old}"
        sizes = {name: cluster.records[name].memory for name in ours}
        assert set(sizes.values()) <= {cluster.memory}, f"of another size than {cluster.memory}: {sizes}"
        assert not [each for each in cluster.reservations() if each.nodes], "reserved, and nothing waits"
        assert not (others := [name for name in wanted if cluster.lacks_features(name)]), f"other features: {others}"
        drained = {name: cluster.records[name] for name in ours if cluster.records[name].is_held}
        assert not drained, f"still drained: {drained}"

    def one_bad_machine_holds_up_no_other(self) -> None:
        """With one bad host, on which there is one node at most, all others get the newest template."""
        cluster = self.cluster
        bad = next((name for name, host in cluster.hosts.items() if host.is_bad), "")
        if not bad or sum(pod.k8s_node == bad for pod in cluster.pods.values()) > 1:
            return
        cluster.hosts = {name: host if name == bad else Host() for name, host in cluster.hosts.items()}
        self.all_settles()
        well = [name for name in cluster.members() if cluster.pods[name].k8s_node != bad]
        old = [name for name in well if cluster.pods[name].revision != cluster.revision]
        # A larger record would have to go first, which the queue holds up, and not that host.
        waits = {name for name in old if cluster.is_queue_deep and cluster.records[name].memory > cluster.memory}
        assert not [name for name in old if name not in {*cluster.foreign, *waits}], f"{bad} holds up {old}"

    def all_settles(self) -> None:
        """Passes and Kubernetes' steps until nothing has changed for an hour, which must come.

        While nothing changes, time passes in longer steps.
        """
        cluster, quiet_seconds, pause = self.cluster, 0, MINUTE
        for _ in range(10 * MOST):
            before = cluster.snapshot()
            cluster.slurm_issues_reboots()
            cluster.long_checks_pass()
            self.the_operator_passes()
            cluster.kubernetes_steps()
            for host in cluster.hosts.values():
                host.ours = False  # Given back, also those of a repair that was noted before all was well.
            self.drains_of_others_stay()
            is_quiet = cluster.snapshot() == before
            quiet_seconds, pause = (quiet_seconds + pause, 2 * pause) if is_quiet else (0, MINUTE)
            if quiet_seconds > 60 * MINUTE:
                return
            self.time_passes(pause)
        raise AssertionError("it never settles")
