"""slurmctld, played: records of nodes, jobs and reservations, and what it does with them by itself."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping

from slurm_operator.decide.node_sets import records
from slurm_operator.state.slurm import Facts, Jobs, Named, Reservation, SlurmJob, SlurmNode, TooDeep, Unknown

from contract import names, reasons

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
ADMINISTRATOR = "alice"
TOO_LARGE = "Low RealMemory (reported:1000 < 100.00% of configured:2000)"
TOO_FEW = "gres/gpu count reported lower than configured (3 < 4)"
REFUSALS = (TOO_LARGE, TOO_FEW)
SLURMS_OWN = (*REFUSALS, reasons.REBOOT_ASAP)
ASKED, ISSUED = "REBOOT_REQUESTED", "REBOOT_ISSUED"
OF_ANOTHER_SET = SlurmNode("cpu-big-0", frozenset({"IDLE", "DRAIN"}), reasons.UPDATE, names.SLURM_USER, weight=5)
"""Of a set whose name begins as this one's does. It is listed, and nobody may change it."""
RESUME_TIMEOUT = datetime.timedelta(seconds=600)


@dataclasses.dataclass
class Record:
    """slurmctld's record of a node; `memory` is that of the registration that made it. `refused` is why Slurm does.

    `next_state` is what `scontrol reboot` sets aside for the registration that ends it. Any ends the drain, too.
    """

    started: datetime.datetime
    memory: int = 1
    weight: int = 1
    topology: str = ""
    refused: str = ""
    reboot: str = ""
    next_state: str = ""
    rebooted: datetime.datetime = NOW
    base: str = "IDLE"
    drained: bool = False
    failing: bool = False
    reason: str = ""
    user: str = ""
    since: datetime.datetime = NOW
    comment: str = ""
    features: frozenset[str] = frozenset({"cpu"})

    def drain(self, reason: str, user: str, since: datetime.datetime) -> None:
        self.drained, self.failing = True, False
        self.reason, self.user, self.since = reason, user, since
        self.state_is_set()

    def undrain(self) -> None:
        self.drained = self.failing = False
        self.reason = self.user = ""
        self.state_is_set()

    def state_is_set(self) -> None:
        """Another state ends what is set aside, but while Slurm shows a reboot: also one whose slurmd it refused."""
        self.next_state = self.next_state if self.reboot or self.refused else ""

    @property
    def is_held(self) -> bool:
        return self.drained or self.failing


JOB_STATES = {
    "PENDING": "PENDING",
    "RUNNING": "RUNNING",
    "CONFIGURING": "RUNNING CONFIGURING",
    "SUSPENDED": "SUSPENDED",
    "preempted": "SUSPENDED",
    "stopped": "RUNNING STOPPED",
    "COMPLETING": "COMPLETED COMPLETING",
    "requeuing": "PENDING COMPLETING",
}
"""State of a job → its form in slurmctld's listing."""
WITH_PROCESSES = [state for state in JOB_STATES if state != "PENDING"]


@dataclasses.dataclass
class Job:
    """A job, a task of an array, or a component of a heterogeneous job; it has a node or waits for one.

    `names` is a node that its user asked for, or excluded.
    """

    node: str
    state: str = "RUNNING"
    names: str = ""

    @property
    def has_cpus(self) -> bool:
        """A job that an administrator suspends gives its processors up."""
        return self.state in ("RUNNING", "CONFIGURING", "preempted", "stopped")


class PlayedSlurmctld:
    """One slurmctld.

    Attributes:
        is_queue_deep: so many jobs wait that they are not listed.
        foreign: node → reason for which somebody else took it out of service.
        reserved: node → the flags that a reservation of it shows now; none if it begins later.
        ours: the operator's own reservation.
    """

    def __init__(self) -> None:
        self.now = NOW
        self.records: dict[str, Record] = {}
        self.jobs: list[Job] = []
        self.is_queue_deep = False
        self.foreign: dict[str, str] = {}
        self.reserved: dict[str, frozenset[str]] = {}
        self.ours: Reservation | None = None

    # What it does by itself.

    def register(
        self, name: str, memory: int, kept: Mapping[str, str], *, all_gpus: bool = True, weight: int = 1
    ) -> None:
        """A node's slurmd begins; `kept` are the drains of others of which the operator remembers the words.

        The record that it makes has its own size. A reboot is over then. If Slurm refuses that slurmd, it says so by
        its reason alone (slurmrestd_records.py). It lifts no drain for that when it takes the slurmd again.
        """
        if name not in self.records:
            self.records[name], all_gpus = Record(self.now, memory, weight), True
            self.records[name].drain(reasons.NEW, names.SLURM_USER, self.now)
        record = self.records[name]
        record.started, record.reboot = self.now, "" if record.reboot == ISSUED else record.reboot
        record.refused = TOO_LARGE if memory < record.memory else "" if all_gpus else TOO_FEW
        if record.refused:
            self._refuse(name, kept)
        elif record.base == "DOWN":
            self._end_reboot(name)

    def _end_reboot(self, name: str) -> None:
        """A node that was DOWN registers. With a next state any drain ends, whoever set it."""
        record = self.records[name]
        record.drained, then, record.next_state = record.drained and not record.next_state, record.next_state, ""
        self.return_to_service(name)
        if "DOWN" in then and not record.failing:
            record.base, self.foreign[name] = "DOWN", reasons.REBOOT_COMPLETE
            self._say_of_reboot(name, reasons.REBOOT_COMPLETE)

    def _refuse(self, name: str, kept: Mapping[str, str]) -> None:
        """slurmctld puts its own reason in the place of whatever stands there (validate_node_specs)."""
        record = self.records[name]
        if name in self.foreign and name in kept:
            self.foreign[name] = kept[name]
        elif record.failing:
            self.foreign[name] = record.refused  # Slurm itself sets no node to FAIL, so that it stays somebody's.
        else:
            self.foreign.pop(name, None)  # Nobody knows of a drain that no pass has seen (limits.md).
        # It drains a node that serves; one that is out of service already only gets that reason.
        record.drained |= not record.failing and record.base != "DOWN"
        if record.reason != record.refused:
            record.reason, record.user, record.since = record.refused, names.SLURM_USER, self.now

    def return_to_service(self, name: str) -> None:
        """Its slurmd answers a ping: Slurm takes back that it is DOWN, whoever said so (ReturnToService=2)."""
        record = self.records[name]
        if record.refused:
            return
        if record.base == "DOWN" and not record.is_held:
            record.reason, record.user = "", ""
            self.foreign.pop(name, None)
        record.base = "IDLE"

    def reboot(self, name: str, *, asap: bool = False, reason: str = "", next_state: str = "") -> None:
        """A person asks for `scontrol reboot` (_slurm_rpc_reboot_nodes in proc_req.c); a second one is skipped.

        A reason that takes a node out of service is played alone: one of a node that serves goes with the reboot.
        """
        record = self.records[name]
        if record.reboot:
            return
        record.reboot, record.next_state = ASKED, next_state
        said = reason if asap or record.is_held or record.base == "DOWN" else ""
        if asap and not record.drained:
            record.drained, record.next_state = True, f"{next_state} UNDRAIN"
            said = said or ("" if record.reason else reasons.REBOOT_ASAP)
        if said:
            record.reason, record.user, record.since, self.foreign[name] = said, ADMINISTRATOR, self.now, said

    def slurm_issues_reboots(self) -> list[str]:
        """Nodes that fell idle, or are DOWN, are rebooted, which Slurm says in its own name.

        It gives up a reboot after which it accepts no slurmd in time (power_save.c). Those are returned.
        """
        self.now += datetime.timedelta(seconds=1)
        given_up = []
        for name, record in self.records.items():
            if record.reboot == ISSUED and self.now > record.rebooted + RESUME_TIMEOUT:
                given_up.append(name)
                record.reboot = ""
                self._say_of_reboot(name, reasons.REBOOT_TIMED_OUT)
            if record.reboot == ASKED and not [job for job in self.jobs if job.node == name]:
                record.reboot, record.base, record.rebooted = ISSUED, "DOWN", self.now
                self._say_of_reboot(name, record.reason or "reboot requested")
        return given_up

    def _say_of_reboot(self, name: str, reason: str) -> None:
        """The reason of a drain is read without what Slurm adds to it."""
        record = self.records[name]
        record.user, record.since = names.SLURM_USER, self.now
        record.reason = record.reason if record.is_held else reason
        # Nobody can tell any more who wrote words that are the operator's own, or who set it DOWN.
        is_down = not record.is_held and reason != reasons.REBOOT_COMPLETE
        is_given_up = record.reason == reasons.REBOOT_ASAP and not record.reboot
        if is_down or is_given_up or record.reason.startswith(reasons.PREFIX):
            self.foreign.pop(name, None)

    def slurmctld_starts_anew(self) -> None:
        """It ends jobs that name a node without a record, and such nodes leave their reservations for good."""
        lost = [job for job in self.jobs if job.names and job.names not in self.records]
        assert not lost, f"slurmctld ends {lost}, whose nodes have no record"
        assert self.reserved.keys() <= self.records.keys(), "a reservation loses a node"

    def slurmctld_forgets(self, nodes: Iterable[str]) -> None:
        """It starts anew from an older state without those records; their slurmds run on, with the jobs there."""
        for name in {*nodes} & self.records.keys():
            del self.records[name]
            self.foreign.pop(name, None)
            self.reserved.pop(name, None)
            self.jobs = [job for job in self.jobs if job.names != name]
            if self.ours:
                self.ours = dataclasses.replace(self.ours, nodes=self.ours.nodes - {name})
        self.slurmctld_starts_anew()

    # What others do to it.

    def forget(self, name: str) -> None:
        """A record goes."""
        assert name not in self.foreign, f"what somebody said of {name} goes with its record"
        assert name not in self.reserved, f"{name} is reserved"
        assert name not in self.maintained(), f"{name} is reserved for its update"
        assert not [job for job in self.jobs if job.names == name], f"a job names {name}"
        del self.records[name]

    # How it is.

    def no_job_is_on(self, name: str) -> None:
        """Return whether a node may go."""
        assert not [job for job in self.jobs if job.node == name], f"{name} goes under a job"

    def usable(self) -> list[str]:
        """Nodes that take jobs."""
        there = [(name, record) for name, record in self.records.items() if not record.refused]
        return [name for name, record in there if not record.is_held and record.base == "IDLE"]

    def waited(self, name: str) -> float:
        """Seconds since a node was drained."""
        return (self.now - self.records[name].since).total_seconds()

    def reservations(self) -> tuple[Reservation, ...]:
        """Those of people, and the operator's own until it is over."""
        day = datetime.timedelta(days=1)
        listed = [
            Reservation(
                *(f"of-{name}", frozenset({name}), self.now - day if flags else self.now + day, self.now + 2 * day),
                users=ADMINISTRATOR,
                flags=frozenset({"MAINT"} if "MAINTENANCE" in flags else ()),
            )
            for name, flags in self.reserved.items()
        ]
        own = [self.ours] if self.ours and self.ours.ends > self.now else []
        return (*listed, *own)

    def maintained(self) -> frozenset[str]:
        """Nodes of the operator's own reservation while it lasts."""
        lasts = self.ours is not None and self.ours.starts <= self.now < self.ours.ends
        return self.ours.nodes if self.ours and lasts else frozenset()

    # How the operator sees it.

    def listing(self, lost: set[int]) -> dict[str, SlurmNode]:
        """Slurm's nodes, but for those ordinals."""
        ours = {name: self.seen(name) for name in self.records if int(name[4:]) not in lost}
        return ours | {OF_ANOTHER_SET.name: OF_ANOTHER_SET}

    def seen(self, name: str) -> SlurmNode:
        record = self.records[name]
        there = [job for job in self.jobs if job.node == name]
        # A suspended job's node reads IDLE.
        works = any(job.has_cpus and job.state != "preempted" for job in there)
        states = {"MIXED" if works else record.base, "DYNAMIC_NORM"} | self.reserved.get(name, frozenset())
        flags = {"DRAIN": record.drained, "FAIL": record.failing, "INVALID_REG": bool(record.refused)}
        states |= {flag for flag, set_now in flags.items() if set_now}
        states |= {record.reboot} - {""}
        states |= {"RESERVED", "MAINTENANCE"} if name in self.maintained() else set()
        states |= {"COMPLETING"} if any(job.state in ("COMPLETING", "requeuing") for job in there) else set()
        cpus = sum(job.has_cpus for job in there)
        words = (record.reason, record.user, cpus, record.started, record.since, record.comment)
        memory = 100 * sum(job.has_cpus or job.state == "SUSPENDED" for job in there)
        return SlurmNode(
            *(name, frozenset(states), *words),
            facts=Facts(1, record.memory),
            features=record.features,
            weight=record.weight,
            topology=record.topology,
            allocated_memory=memory,
        )

    def all_jobs(self) -> tuple[SlurmJob, ...]:
        """Every job, with what it names."""
        rows = [(frozenset(JOB_STATES[job.state].split()), frozenset({job.node} - {""})) for job in self.jobs]
        named = [frozenset({job.names} - {""}) for job in self.jobs]
        return tuple(
            SlurmJob(n, states, frozenset({"main"}), nodes, names=named[n]) for n, (states, nodes) in enumerate(rows)
        )

    def job_listing(self) -> Jobs | Unknown:
        """Return what jobs there are, unless too many wait."""
        return TooDeep("TooManyJobs", "") if self.is_queue_deep else Jobs(self.all_jobs())

    def named(self) -> Named | None:
        """Return what jobs and reservations name, unless too many jobs wait."""
        return None if self.is_queue_deep else records.named(self.all_jobs(), self.reservations())
