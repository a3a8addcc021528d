"""The walk of the model: what users, administrators and slurmctld do, and faults of the operator itself."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Sequence

from hypothesis import stateful
from hypothesis import strategies as st
from slurm_operator.actions import Action, Drain, Undrain
from slurm_operator.state.resources import Window

from contract import reasons
from tests.operator.model.changed_records import ChangedRecords
from tests.operator.model.failing_machines import ORDINALS
from tests.operator.played.played_cluster import FIRST_CHECK, MOST, UNFIT
from tests.operator.played.played_slurmctld import ADMINISTRATOR, ISSUED, WITH_PROCESSES, Job

REASONS = st.sampled_from(["bad disk", reasons.SCALE_IN, reasons.UPDATE, reasons.NEW, UNFIT])
OPEN = datetime.timedelta(seconds=600)
WINDOWS: dict[str, tuple[datetime.timedelta | None, bool]] = {
    "none": (None, False),
    "open": (datetime.timedelta(0), True),
    "opens soon": (datetime.timedelta(seconds=300), False),
    "next week": (-OPEN, True),
    "past": (-OPEN, False),
}
"""By name: time from now until a window opens, and if it opens each week."""


class Model(ChangedRecords):
    """The history of one node set."""

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


play: Callable[..., object] = stateful.run_state_machine_as_test
"""Plays a model with settings of its own; Hypothesis declares no types for it."""
