"""Records of a played cluster: weights and places in topologies are declared, and people ask for reboots."""

from __future__ import annotations

from hypothesis import stateful
from hypothesis import strategies as st
from slurm_operator.state.resources import Place

from tests.operator.model.failing_machines import ORDINALS, FailingMachines
from tests.operator.played.played_hosts import RACK

BLOCK, BY_RACK = Place("nvlink", "b"), Place("fabric", "pods", (RACK,))
NEXT_STATES = st.sampled_from(["", "", "", "RESUME", "DOWN"])


class ChangedRecords(FailingMachines):
    """The operator writes weights and places, and Slurm reboots nodes."""

    @stateful.rule(weights=st.sampled_from([None, (1, 1), (1, 8), (100, 2)]))
    def declare_other_weights(self, weights: tuple[int, int] | None) -> None:
        """Pods get them, too, so that it is another template."""
        self.cluster.weights = weights
        self.cluster.revision += 1

    @stateful.rule(
        places=st.sampled_from([None, (), (BLOCK,), (BY_RACK,), (BY_RACK, BLOCK)]), known=st.sampled_from([True, False])
    )
    def declare_other_places(self, places: tuple[Place, ...] | None, known: bool) -> None:
        """While the operator can't read the configuration, it knows no topologies."""
        self.cluster.places, self.cluster.knows_topologies = places, known

    @stateful.rule(number=ORDINALS, rack=st.sampled_from(["", "r1", "r2"]))
    def a_machine_is_in_another_rack(self, number: int, rack: str) -> None:
        self.cluster.hosts[f"m-{number}"].rack = rack

    @stateful.rule(ordinal=ORDINALS)
    def an_administrator_gives_another_weight_and_place(self, ordinal: int) -> None:
        if record := self.cluster.records.get(f"cpu-{ordinal}"):
            record.weight, record.topology = 77, "nvlink:a"

    @stateful.rule(
        ordinal=ORDINALS, asap=st.booleans(), reason=st.sampled_from(["", "", "new kernel"]), next_state=NEXT_STATES
    )
    def an_administrator_reboots(
        self, ordinal: int, asap: bool = False, reason: str = "", next_state: str = ""
    ) -> None:
        if f"cpu-{ordinal}" in self.cluster.records:
            self.cluster.reboot(f"cpu-{ordinal}", asap=asap, reason=reason, next_state=next_state)

    @stateful.rule()
    def slurm_issues_reboots(self) -> None:
        self.cluster.slurm_issues_reboots()
