"""Passes of the operator over a played cluster, and what must hold after each step and in the end."""

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
from slurm_operator.state.resources import RemovalPolicy, Restart, UpdatePolicy
from slurm_operator.state.slurm import Nodes

from contract import names, reasons
from contract.policies import ReactionPolicy
from tests.operator.played.played_clients import LeaseFor, PlayedApi, PlayedRest, finished
from tests.operator.played.played_cluster import MOST, UNFIT, UNTESTED, PlayedCluster
from tests.operator.played.played_hosts import Host
from tests.operator.played.played_slurmctld import ADMINISTRATOR, ISSUED, OF_ANOTHER_SET, REFUSALS, SLURMS_OWN

MINUTE = 60
DAY = datetime.timedelta(days=1)
DEADLINES = st.sampled_from([None, None, 0, 300])
REACTIONS = ReactionPolicy(restart=True, after_seconds=60, attempts=2, at_once=1, per_hour=2, breaker_percent=60)


class JudgedPasses(stateful.RuleBasedStateMachine):
    """A node set, and the operator's reconciles of it.

    Attributes:
        steps: how many there were in all histories.
        repairs: numbers of repairs: restarts (false), replacements (true).
        done: restarts and replacements that were made, whatever the operator remembers of them.
        taken: nodes that an update took out of service, and that have not worked since.
        told: what the newest pass said.
    """

    steps: ClassVar[int] = 0
    repairs: ClassVar[dict[bool, int]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.cluster = PlayedCluster()
        self.api, self.rest = PlayedApi(self.cluster), PlayedRest(self.cluster)
        self.hold = ""
        self.done: list[Restart] = []
        self.taken: set[str] = set()
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

    @stateful.rule(seconds=st.sampled_from([1, 30, 90, 400, 4000]))
    def time_passes(self, seconds: int) -> None:
        self.cluster.now += datetime.timedelta(seconds=seconds)

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
        state, listing = cluster.state(self.hold), cluster.listing(lost or set())
        seen = state.seen(listing)
        if full_listing.is_needed(seen):
            full = cluster.listing(lost_later or set())
            found = full_listing.build(full, cluster.job_listing(), counts_memory=True, named=cluster.named())
            assert found
            listing = {**slurm_nodes.with_jobs(listing, found.jobs)}
            seen = state.seen(listing, found)
        decision = decide(seen)
        assert not decision.defects
        theirs = [each for each in decision.actions if getattr(each, "node", "") == OF_ANOTHER_SET.name]
        assert not theirs, f"of another set: {theirs}"
        drained = [each.node for each in decision.actions if isinstance(each, Drain)]
        assert len(drained) == len({*drained}), f"drained twice at once: {drained}"
        plan = decision.plan
        assert plan
        self.told, noted = plan.findings, {*plan.restarts} - {*cluster.restarts}
        if noted:
            self.repairs_are_few(noted, plan.restarts, listing)
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
            type(self).repairs[replaces] = type(self).repairs.get(replaces, 0) + 1
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
        comes |= record.reason in SLURMS_OWN or (idle and record.reason.startswith(reasons.NODE))
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

    def what_works_again_is_taken_no_more(self) -> None:
        self.taken &= {*self.cluster.members()} - {*self.cluster.working()} - self.cluster.foreign.keys()

    def repairs_are_few(self, noted: set[Restart], restarts: tuple[Restart, ...], listing: Nodes) -> None:
        """No more at once than the policy has, and none while many nodes are unfit together."""
        cluster = self.cluster
        lately = {each.node for each in restarts if each.at > cluster.now - remediate.SETTLING}
        away = sorted(lately & {*cluster.members()} - {*cluster.working()})
        assert len(away) <= cluster.reactions.at_once, f"too many under repair at once: {away}"
        unfit = [name for name in cluster.members() if name in listing and listing[name].reason == UNFIT]
        unfit = [name for name in unfit if name not in cluster.foreign]
        shared = len(unfit) > 1 and len(unfit) * 100 > cluster.reactions.breaker_percent * len(cluster.members())
        assert not shared, f"{noted} are repaired while {unfit} are unfit together"

    def the_ladder_is_climbed(self, noted: Restart, restarts: tuple[Restart, ...]) -> None:
        """Restarts first, as many as the policy has; then one other Kubernetes node; then nothing for a day."""
        policy = self.cluster.reactions
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
    def what_must_always_hold(self) -> None:
        """One invariant of four: what Hypothesis does for each takes longer than they do."""
        self.drains_of_others_stay()
        self.no_node_serves_while_it_is_removed()
        self.restarts_of_unfit_nodes_keep_their_budgets()
        self.what_works_again_is_taken_no_more()

    def drains_of_others_stay(self) -> None:
        type(self).steps += 1
        for record, reason in ((self.cluster.records[name], reason) for name, reason in self.cluster.foreign.items()):
            assert record.is_held or record.base == "DOWN"
            assert record.reason in (reason, *REFUSALS) or record.reason.endswith(f": {reason}")
            assert record.user in (ADMINISTRATOR, names.SLURM_USER), "only a reboot and a refusal are in Slurm's name"

    def no_node_serves_while_it_is_removed(self) -> None:
        for name, pod in self.cluster.pods.items():
            leaving = pod.phase == "ending" or (pod.phase == "up" and int(name[4:]) >= self.cluster.size)
            record = self.cluster.records.get(name)
            out = record is None or record.is_held or record.reboot == ISSUED
            # Slurm gave the reboot up while the pod ended, and left the node DOWN.
            out |= record is not None and record.base == "DOWN" and record.reason == reasons.REBOOT_TIMED_OUT
            assert not leaving or out, f"{name} takes jobs and is being removed"

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
        cluster.knows_topologies = True
        self.one_bad_machine_holds_up_no_other()
        cluster.hosts = {name: Host(rack=host.rack) for name, host in cluster.hosts.items()}
        self.one_pass()
        told = {name: (cluster.records[name].reason, said) for name, said in cluster.foreign.items()}
        lost = [name for name, (reason, said) in told.items() if reason in REFUSALS and reason != said]
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
        weights = {name: cluster.records[name].weight for name in wanted}
        assert not [name for name in wanted if cluster.declared_weight(name) not in (None, weights[name])], weights
        assert not (others := [name for name in wanted if cluster.lacks_place(name)]), f"in another place: {others}"
        out = {name: cluster.records[name] for name in ours - {*cluster.usable()}}
        assert not out, f"still out of service: {out}"

    def one_bad_machine_holds_up_no_other(self) -> None:
        """With one bad host, on which there is one node at most, all others get the newest template."""
        cluster = self.cluster
        bad = next((name for name, host in cluster.hosts.items() if host.is_bad), "")
        if not bad or sum(pod.k8s_node == bad for pod in cluster.pods.values()) > 1:
            return
        others = {name: Host(rack=host.rack) for name, host in cluster.hosts.items()}
        cluster.hosts = others | {bad: cluster.hosts[bad]}
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
        begun = cluster.now
        for _ in range(10 * MOST):
            before = cluster.snapshot()
            given_up = [name for name in cluster.slurm_issues_reboots() if cluster.records[name].rebooted > begun]
            there = [name for name in given_up if cluster.is_on_a_good_host(name)]
            assert not there, f"{there} were rebooted, and got no new pod"
            cluster.long_checks_pass()
            self.one_pass()
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
