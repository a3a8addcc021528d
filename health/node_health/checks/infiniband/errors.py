"""Checks how fast the error counters of RDMA ports grow: symbols, recoveries, received errors, link integrity."""

from contract import reasons
from node_health import thresholds
from node_health.check import Applies, Check, Machine
from node_health.sources import infiniband
from node_health.sources.infiniband import Adapters
from node_health.verdict import Action, Finding, passes, warns


def judge(adapters: Adapters, machine: Machine) -> Finding:
    """WARNING at a high rate, and when a counter is full: nobody sees further errors then."""
    most = thresholds.of().number("infiniband.errors")
    ports = adapters.counting(adapters.active, "errors")
    if bad := [str(port) for port in ports if adapters.grew.per_hour(f"{port} errors") > most]:
        return warns(f"more than {most:g} errors an hour: {', '.join(bad)}", Action.CHECK_MECHANICALS)
    if full := [f"{name} of {port}" for port in ports for name in port.full if name != infiniband.LOSSES]:
        return warns(f"counters are full, and count no further: {', '.join(full)}", Action.NONE)
    return passes(f"{sum(adapters.grew.by[f'{port} errors'] for port in ports)} errors lately")


CHECK = Check(
    reasons.Check.IB_ERRORS,
    infiniband.look,
    judge,
    fails="",
    warns="a port has many symbol errors, recoveries or received errors, or its counter is full",
    remedy="clean or replace the cable or transceiver; `perfquery -R` empties a full counter",
    applies=Applies.RDMA,
)
