"""Kubernetes nodes of a played cluster, as they fail, recover, are emptied and come back."""

from __future__ import annotations

from hypothesis import stateful
from hypothesis import strategies as st

from contract import names, reasons
from tests.operator.model.judged_passes import JudgedPasses
from tests.operator.played.played_cluster import MOST, OUR_REASONS
from tests.operator.played.played_hosts import Host

ORDINALS = st.integers(0, MOST - 1)


class FailingMachines(JudgedPasses):
    """Kubernetes nodes fail, are cordoned or tainted, vanish, or have a condition that tells of a fault."""

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

    @stateful.rule(number=ORDINALS)
    def a_machine_loses_a_gpu_or_gets_it_back(self, number: int) -> None:
        """Its next slurmd is refused then."""
        self.cluster.hosts[f"m-{number}"].lacks_gpu ^= True

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
