"""Each key of slurm.conf's lines other than nodes and partitions: which key sets it, or why nobody does."""

from typing import Final

from components.config.slurm_keys.line_keys import LineKeys

_DYNAMIC: Final = "nodes register themselves, so slurm.conf names none; drain one with scontrol update"
DOWN_NODES: Final = LineKeys(
    of="a DownNodes line",
    at="nodeSets[]",
    typed={},
    owned={},
    refused=dict.fromkeys(("DownNodes", "Reason", "State"), _DYNAMIC),
    allowed=(),
)

NODE_SETS: Final = LineKeys(
    of="a NodeSet line",
    at="nodeSets[]",
    typed={"NodeSet": "name", "Feature": "name"},
    owned={"Nodes": "nodes register themselves with their set's feature, so no line names them"},
    refused={},
    allowed=(),
)
"""Each node set is one; partitions name it."""

_PROGRAMS: Final = "it runs a program in the pod of slurmctld or of a node; the operator starts and removes pods"
POWER_ACTIONS: Final = LineKeys(
    of="a PowerAction line",
    at="slurm",
    typed={},
    owned={},
    refused=dict.fromkeys(("PowerAction", "Location", "Program"), _PROGRAMS),
    allowed=(),
)
