"""Checks the partition keys of InfiniBand ports: limited members of a partition don't reach each other."""

from contract import reasons
from node_health.check import Applies, Check, DoesNotApplyError, Machine
from node_health.sources import infiniband
from node_health.sources.infiniband import Adapters
from node_health.verdict import Finding, fails, passes, warns

FULL_MEMBER = 0x8000
"""Bit of a key (InfiniBand Architecture Specification, volume 1, section 10.9.1)."""


def judge(adapters: Adapters, machine: Machine) -> Finding:
    """FAIL without a key, WARNING with limited membership alone."""
    if not (ports := [port for port in adapters.active if port.is_infiniband]):
        raise DoesNotApplyError("the ports are Ethernet's")
    if none := [str(port) for port in ports if not port.partitions]:
        return fails(f"no partition key: {', '.join(none)}")
    if limited := [str(port) for port in ports if not any(key & FULL_MEMBER for key in port.partitions)]:
        return warns(f"limited member of each partition: {', '.join(limited)}")
    return passes(f"{len(ports)} ports are full members of a partition")


CHECK = Check(
    reasons.Check.IB_PARTITIONS,
    infiniband.look,
    judge,
    fails="an active port has no partition key",
    warns="a port is only a limited member, and does not reach other limited ones",
    remedy="add the port to the subnet manager's partition",
    applies=Applies.RDMA,
)
