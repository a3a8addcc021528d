"""Checks that the pod has the declared RDMA adapters."""

from contract import reasons
from node_health.check import Applies, Check, Machine
from node_health.sources import infiniband
from node_health.sources.infiniband import Adapters
from node_health.verdict import Action, Finding, fails, passes, warns


def judge(adapters: Adapters, machine: Machine) -> Finding:
    """FAIL without any, with fewer than declared, or when one is gone.

    WARNING with fewer than units where nobody declared the adapters: a unit of a shared pool opens several.
    """
    count, declared, wanted = len(adapters.names), machine.declared.rdma, machine.declared.rdma_adapters
    named = f"{count} adapters ({', '.join(adapters.names)})"
    evidence = f"{named}, {f'{wanted} adapters' if wanted else f'{declared} units'} declared"
    if not count:
        return fails(f"no adapter, {declared} units declared", Action.RESTART_BM)
    if adapters.gone:
        return fails(f"gone since this pod began: {', '.join(adapters.gone)}", Action.RESTART_BM)
    if count < wanted:
        return fails(evidence, Action.RESTART_BM)
    return passes(evidence) if count >= declared else warns(evidence)


CHECK = Check(
    reasons.Check.IB_DEVICES,
    infiniband.look,
    judge,
    fails="the pod has no RDMA adapter, or fewer than `network.rdma.adapters`, or one is gone since the pod began",
    warns="it has fewer than `network.rdma.count`",
    remedy="look for adapters that the machine lost (`lspci`), and at the RDMA device plugin",
    applies=Applies.RDMA,
)
