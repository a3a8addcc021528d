"""Slurm on Kubernetes, played: pods and hosts, and what they do with slurmctld and its nodes."""

from __future__ import annotations

import dataclasses
import datetime

from slurm_operator.decide.nodes.topology import Topologies
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.state.kubernetes import Pod, Workload
from slurm_operator.state.resources import (
    KeptDrain,
    NodeCondition,
    NodeSet,
    Place,
    RemovalPolicy,
    Restart,
    UpdatePolicy,
)
from slurm_operator.state.slurm import Facts

from contract import names, reasons
from contract.policies import ReactionPolicy
from tests.operator.played.played_hosts import CONDITION, Host
from tests.operator.played.played_slurmctld import ISSUED, NOW, TOO_FEW, PlayedSlurmctld, Record
from tests.operator.states.topologies import KNOWN

MOST = 6
UNFIT = "pulumi-slurm:health gpus: 3 of 4 GPUs answer"
BROKEN = "pulumi-slurm:jail: it does not start"
FIRST_CHECK = "bandwidth"
UNTESTED = f"{reasons.UNTESTED}{FIRST_CHECK}"
REMOVAL_REASONS = (reasons.SCALE_IN, f"{reasons.SCALE_IN}{reasons.DEADLINE_PASSED}")
UPDATE_REASONS = (reasons.UPDATE, f"{reasons.UPDATE}{reasons.DEADLINE_PASSED}")
OUR_REASONS = (*REMOVAL_REASONS, *UPDATE_REASONS)


@dataclasses.dataclass
class Worker:
    """A pod: starting, up or ending."""

    uid: int
    revision: int
    created: datetime.datetime
    k8s_node: str
    phase: str = "starting"
    evictable: bool = False
    memory: int = 1
    weight: int = 1


class PlayedCluster(PlayedSlurmctld):
    """One node set with its StatefulSet.

    Attributes:
        broken: templates under which no node works.
        first_checks: long checks that come before a node's jobs.
        features: those that the set declares; None if administrators give them.
        weights: those that the set declares: the first nodes', and how many nodes share one.
        places: those that the set declares in topologies; None if administrators place its nodes.
        knows_topologies: whether the operator knows them.
        updating: what NodeSet.status remembers of an update.
        drains: those of others that it keeps.
        restarts: what NodeSet.status remembers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.wanted = self.size = 0
        self.versions = self.set_version = self.revision = 0
        self.pods: dict[str, Worker] = {}
        self.memory = 1
        self.hosts = {f"m-{n}": Host() for n in range(2 * MOST)}
        self.broken: set[int] = set()
        self.first_checks: tuple[str, ...] = ()
        self.features: tuple[str, ...] | None = None
        self.weights: tuple[int, int] | None = None
        self.places: tuple[Place, ...] | None = None
        self.knows_topologies = True
        self.restarts: tuple[Restart, ...] = ()
        self.updating: frozenset[str] = frozenset()
        self.drains: tuple[KeptDrain, ...] = ()
        self.update = UpdatePolicy()
        self.removal = RemovalPolicy()
        self.reactions = ReactionPolicy()

    def run(self, size: int) -> None:
        """A set of that size runs."""
        self.wanted = self.size = size
        for ordinal in range(size):
            self.pods[f"cpu-{ordinal}"] = Worker(self.another_version(), 0, NOW, f"m-{ordinal}", "up")
            self.records[f"cpu-{ordinal}"] = Record(NOW)

    def snapshot(self) -> list[object]:
        """All that others see of it, but for the time."""
        parts = (*self.pods.values(), *self.records.values(), *self.hosts.values(), *self.jobs)
        named = ([*self.pods], [*self.records], {**self.foreign}, {**self.reserved}, self.ours)
        return [
            self.size,
            self.set_version,
            self.restarts,
            self.updating,
            self.drains,
            *named,
            *({**vars(each)} for each in parts),
        ]

    def another_version(self) -> int:
        """The API server counts all changes together."""
        self.versions += 1
        return self.versions

    # What they do by themselves.

    def kubernetes_steps(self) -> None:
        """Its controllers and kubelets look once."""
        staying = [f"cpu-{ordinal}" for ordinal in range(self.size)]
        for name in [name for name, pod in self.pods.items() if pod.phase == "ending" and not self.is_away(pod)]:
            self.no_job_is_on(name)
            del self.pods[name]
            if name in self.records:
                self.records[name].base = "DOWN"
        for name, pod in self.pods.items():
            if name not in staying:
                self.no_job_is_on(name)
                pod.phase = "ending"
            elif pod.phase == "starting" and pod.k8s_node and not self.is_away(pod):
                pod.phase = "up"
                self._register(name)
            elif pod.phase == "up" and not self.hosts[pod.k8s_node].dead:
                if name not in self.records:
                    self._register(name)
                elif self.records[name].reboot == ISSUED:
                    continue  # Its slurmd is the one of before.
                elif self.records[name].refused == TOO_FEW and not self.hosts[pod.k8s_node].lacks_gpu:
                    self._register(name)  # slurmd tries that again and again.
                self.return_to_service(name)
            self.look_at_itself(name)
        for name in staying:
            if name not in self.pods:
                of_template = Worker(self.another_version(), self.revision, self.now, "", memory=self.memory)
                self.pods[name] = dataclasses.replace(of_template, weight=self.declared_weight(name) or 1)
            pod = self.pods[name]
            pod.k8s_node = pod.k8s_node or self._emptiest()

    def _emptiest(self) -> str:
        """The host for a pod; none if nobody takes it."""
        pods = [pod.k8s_node for pod in self.pods.values()]
        return min((host for host, each in self.hosts.items() if each.takes_pods), key=pods.count, default="")

    def kubectl_drain_goes_on(self) -> None:
        """Pods that may be evicted are, from hosts that somebody empties."""
        for name, pod in self.pods.items():
            cordoned = bool(pod.k8s_node) and self.hosts[pod.k8s_node].cordoned
            if pod.evictable and cordoned and pod.phase == "up":
                self.no_job_is_on(name)
                pod.phase = "ending"

    def look_at_itself(self, name: str) -> None:
        """A node drains itself and lifts that."""
        pod, record = self.pods[name], self.records.get(name)
        if pod.phase != "up" or record is None or self.hosts[pod.k8s_node].dead:
            return
        why = self.lacks(name)
        if name in self.foreign:
            return
        own = record.drained and record.reason in (UNFIT, BROKEN)
        if why and record.reason != why and (own or not record.drained or record.reason == reasons.NEW):
            record.drain(why, "root", self.now)
        if not why and own:
            record.undrain()

    def _register(self, name: str) -> None:
        pod, kept = self.pods[name], {drain.node: drain.reason for drain in self.drains}
        self.register(name, pod.memory, kept, all_gpus=not self.hosts[pod.k8s_node].lacks_gpu, weight=pod.weight)

    def long_checks_pass(self) -> None:
        """Untested nodes that are there and well pass (test_first_checks.py plays the jobs), and their drain ends."""
        for name in [name for name in self.members() if name in self.records and name in self.pods]:
            record, pod = self.records[name], self.pods[name]
            untested = (record.user, record.reason) == (names.SLURM_USER, UNTESTED)
            if untested and self._is_ready(name) and not (pod.evictable or self.is_failed(name) or record.refused):
                record.undrain()

    # What others do to them.

    def die_with(self, k8s_node: str) -> list[str]:
        """Jobs and slurmds of a host end; returns its nodes."""
        lost = [name for name, pod in self.pods.items() if pod.k8s_node == k8s_node]
        self.jobs = [job for job in self.jobs if job.node not in lost]
        for name in lost:
            if name in self.records:
                self.records[name].base = "DOWN"
        return lost

    # How they are.

    def is_away(self, pod: Worker) -> bool:
        return bool(pod.k8s_node) and self.hosts[pod.k8s_node].away_since is not None

    def is_on_a_good_host(self, name: str) -> bool:
        pod = self.pods.get(name)
        return pod is not None and bool(pod.k8s_node) and not self.hosts[pod.k8s_node].is_bad

    def is_sick(self, name: str) -> bool:
        return bool(self.pods[name].k8s_node) and self.hosts[self.pods[name].k8s_node].sick

    def fails(self, name: str) -> bool:
        """Return whether a condition of a node's host says a fault."""
        return bool(self.pods[name].k8s_node) and self.hosts[self.pods[name].k8s_node].says == "True"

    def is_failed(self, name: str) -> bool:
        """Return whether that is so, or was when nobody knew more, and the node is drained for it."""
        host, reason = self.pods[name].k8s_node, self.records[name].reason
        unknown = bool(host) and self.hosts[host].says not in ("True", "False")
        return self.fails(name) or (unknown and reason.startswith(f"{reasons.NODE}{host} says "))

    def lacks(self, name: str) -> str:
        """Return what a node would say of itself; empty if it is well."""
        return UNFIT if self.is_sick(name) else BROKEN * (self.pods[name].revision in self.broken)

    def is_unfit_and_idle(self, name: str) -> bool:
        """Return whether a running node has drained itself and has no work."""
        record, pod = self.records.get(name), self.pods.get(name)
        is_up = pod is not None and pod.phase == "up" and not self.is_away(pod)
        own = record is not None and record.reason == UNFIT and name not in self.foreign and not record.reboot
        return is_up and own and all(job.node != name for job in self.jobs)

    def working(self) -> list[str]:
        """Nodes that take jobs and whose pods are well."""
        return [name for name in self.usable() if name in self.pods and self._is_ready(name)]

    def _is_ready(self, name: str) -> bool:
        """Return whether a pod runs, stays, and says that it is well."""
        pod = self.pods[name]
        return pod.phase == "up" and not self.lacks(name) and not self.is_away(pod)

    def is_well_but_for_us(self, name: str) -> bool:
        """Return whether neither a person, nor the node's host, nor its repair keeps it from work."""
        pod, record = self.pods.get(name), self.records.get(name)
        bad = pod is not None and (self.is_sick(name) or self.is_away(pod) or self.fails(name))
        # Its drain for its host's sake lasts until it has looked again, and a repair until that is done.
        of_machine = (reasons.NODE, UNFIT, f"{reasons.REPAIR}{UNFIT.removeprefix(reasons.PREFIX)}")
        by_machine = record is not None and record.reason.startswith(of_machine)
        lacks_gpu = record is not None and record.refused == TOO_FEW
        return not (bad or by_machine or lacks_gpu or name in self.foreign)

    def lacks_features(self, name: str) -> bool:
        """Return whether a node's record has other features than its set declares."""
        return self.features is not None and self.records[name].features != {"cpu", *self.features}

    def declared_weight(self, name: str) -> int | None:
        """Return a node's weight: each group of nodes has the next one, 16 at most."""
        if self.weights is None:
            return None
        first, group = self.weights
        return [first + number for number in range(16) for _ in range(group)][int(name[4:])]

    def declared_place(self, name: str) -> str | None:
        """Return a node's place in topologies; None if none is declared, or its rack or the topologies are unknown."""
        host = self.hosts.get(self.pods[name].k8s_node) if name in self.pods else None
        if self.places is None or host is None or not self.knows_topologies:
            return None
        of_rack = f"pods:{host.rack}" if host.rack else "pods-unlabeled"
        return ",".join(f"{place.name}:{of_rack if place.labels else place.unit}" for place in self.places)

    def lacks_place(self, name: str) -> bool:
        """Return whether a node is elsewhere than its set declares."""
        return self.declared_place(name) not in (None, self.records[name].topology)

    # How the operator sees them.

    def members(self) -> list[str]:
        """Nodes that are there and wanted."""
        return [f"cpu-{ordinal}" for ordinal in range(min(self.wanted, self.size))]

    def state(self, hold: str = "") -> NodeSetState:
        pods = {
            name: Pod(
                *(name, "worker", self._is_ready(name)),
                running=pod.phase != "starting",
                terminating=pod.phase == "ending",
                created=pod.created,
                revision=str(pod.revision),
                uid=str(pod.uid),
                k8s_node=pod.k8s_node,
                evictable=pod.evictable,
            )
            for name, pod in self.pods.items()
        }
        node_set = NodeSet(
            *("cpu", "c", "cpu", self.wanted),
            update=self.update,
            removal=self.removal,
            reactions=self.reactions,
            restarts=self.restarts,
            updating=self.updating,
            drains=self.drains,
            features=self.features,
            topology=self.places,
            conditions=(NodeCondition(CONDITION),),
        )
        workload = Workload(
            *("cpu", self.size, self.size, str(self.set_version)),
            revision=str(self.revision),
            facts=Facts(1, self.memory),
            weights=self.weights,
        )
        topologies = Topologies(KNOWN, KNOWN, settled=True) if self.knows_topologies else None
        k8s_nodes = {name: host.seen() for name, host in self.hosts.items()}
        return NodeSetState(
            *(node_set, workload, pods, self.now, k8s_nodes, hold),
            reservations=self.reservations(),
            topologies=topologies,
            first_checks=self.first_checks,
        )

    def may_lose_jobs(self, name: str) -> bool:
        """Return whether a drain of ours had its deadline."""
        deadlines = {
            reasons.SCALE_IN: self.removal.deadline_seconds,
            reasons.UPDATE: self.update.deadline_seconds,
        }
        seconds = deadlines.get(self.records[name].reason)
        return self.records[name].user == names.SLURM_USER and seconds is not None and self.waited(name) > seconds

    def may_be_drained_as_away(self, name: str) -> bool:
        """Return whether its host had its time, and no more hosts are away than the breaker allows."""
        since = self.hosts[self.pods[name].k8s_node].away_since
        away = sum(map(self.is_away, self.pods.values()))
        shared = away > 1 and away * 100 > self.reactions.breaker_percent * len(self.pods)
        patience = datetime.timedelta(seconds=self.reactions.after_seconds)
        return since is not None and self.now >= since + patience and not shared
