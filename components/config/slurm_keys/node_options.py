"""Each key of a node in slurm.conf is in one of four lists: typed, this program's own, refused, or free to set.

tests/image/configuration/test_options.py compares them with the keys that the installed Slurm's parser takes.
"""

from typing import Final

from components.config.slurm_keys.line_keys import LineKeys

TYPED: Final = {
    "NodeName": "name",
    "CPUs": "resources.cpu",
    "RealMemory": "resources.memory",
    "Gres": "gres",
    "Feature": "features",
    "Features": "features",
    "Topology": "topology",
    "Weight": "weight",
}
"""Key as Slurm writes it → the key of nodeSets[] that sets it."""

_PODS: Final = "nodes are pods, started and removed by the operator"
_ADDRESS: Final = "a node's name and addresses are its pod's"
OWNED: Final = {
    "NodeAddr": _ADDRESS,
    "NodeHostname": _ADDRESS,
    "Port": "Services and network policies depend on it",
    "Reason": "a new node is drained until it is seen to work",
    "State": "a new node is drained until it is seen to work",
    "SuspendTime": _PODS,
}
"""Key → why this program alone sets it."""

REFUSED: Final = {
    "BcastAddr": "it is one node's address, and a set has many nodes",
    "Boards": "Sockets counts those of all boards",
    "CpuBind": "slurmctld ignores it from a node that registers itself; partitions[].options.CpuBind says the same",
    "CPUSpecList": "a pod may get other CPUs at each start; CoreSpecCount says how many stay free",
    "GresConf": "it is for nodes without slurmd",
    "Parameters": "slurmd ignores it on a node that registers itself; slurm.options.SlurmdParameters is for all nodes",
    "Procs": "Slurm has another key in its place; resources.cpu says the same",
    "SocketsPerBoard": "Sockets counts those of all boards",
    "TRESWeights": "the manual of Slurm 26.05 does not say what it does",
}
"""Key → why nobody may set it."""

ALLOWED: Final = (
    "CoresPerSocket",
    "CoreSpecCount",
    "MemSpecLimit",
    "RestrictedCoresPerGPU",
    "Sockets",
    "ThreadsPerCore",
    "TmpDisk",
)
"""Keys that nodeSets[].options sets; each takes a whole number."""

KEYS: Final = LineKeys("a node", "nodeSets[]", TYPED, OWNED, REFUSED, ALLOWED)
