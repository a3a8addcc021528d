"""Checks how fast the error counters of RDMA ports grow: symbols, recoveries, received errors, link integrity."""

from contract import reasons
from node_health import thresholds
from node_health.check import Applies, Check, Machine
from node_health.sources import infiniband
from node_health.sources.infiniband import Adapters
from node_health.verdict import Action, Finding, passes, warns


def judge(adapters: Adapters, machine: Machine) -> Finding:
    """WARNING at a high rate."""
    most = thresholds.of().number("infiniband.errors")
    if bad := [str(port) for port in adapters.active if adapters.grew.per_hour(f"{port} errors") > most]:
        return warns(f"more than {most:g} errors an hour: {', '.join(bad)}", Action.CHECK_MECHANICALS)
    return passes(f"{sum(adapters.grew.by.get(f'{port} errors', 0) for port in adapters.active)} errors lately")


CHECK = Check(
    reasons.Check.IB_ERRORS,
    infiniband.look,
    judge,
    fails="",
    warns="a port has many symbol errors, recoveries or received errors",
    remedy="clean or replace the cable or transceiver",
    applies=Applies.RDMA,
)
