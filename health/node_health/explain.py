"""The command `node-health explain [NODE]`: what ran and when, what is wrong since when, and what drains the node."""

import re
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from contract import commands, reasons
from contract.printable import printable
from node_health import history, node, report
from node_health.check import Machine
from node_health.checks.network.controller import SCONTROL
from node_health.history import Change, History
from node_health.report import Report
from node_health.sources import tool
from node_health.verdict import Result, Verdict

NOTHING = 3
"""Exit status when no run of this node is known."""
ANSWERS_WITHIN = 10
"""Seconds for slurmctld's answer."""
_SHOWN = 10
"""The most changes that are printed, the newest ones."""
_LIFTED_BY = (
    (
        reasons.LONG_CHECK,
        "the operator lifts it when the check passed again (returnAfterPasses), or a person: {}",
    ),
    (f"{reasons.HEALTH} ", "the node lifts it when this check did not fail, or is made no more"),
    (reasons.JAIL, "the node lifts it when a test step in the jail ends well"),
    (reasons.UNTESTED, "the operator lifts it when that long check passed (beforeJobs)"),
    (reasons.REPAIR, "the operator lifts it when the repaired node works"),
    (reasons.NODE, "the operator lifts it when the Kubernetes node is well and may be used"),
    (reasons.PREFIX, "the operator lifts it when its work is done"),
    ("", "whoever set it lifts it: {}"),
)
"""Start of a drain's reason → who ends the drain, the first that fits; {} is the command for a person."""
_RESOLVER = Path("/etc/resolv.conf")
UNKNOWN_NAMESPACE = "NAMESPACE"


@dataclass(frozen=True, slots=True)
class Known:
    """The facts that are known of a node.

    Attributes:
        name: its name in Slurm.
        record: what `scontrol -o show node` printed; empty without an answer.
        latest: results of the last runs; None if there was none.
        history: how they became so.
        namespace: that of its pod, for commands.
    """

    name: str
    record: str
    latest: Report | None = None
    history: History = field(default_factory=History)
    namespace: str = UNKNOWN_NAMESPACE


def lines(known: Known, now: float) -> Iterator[str]:
    """Returns the explanation.

    Args:
        known: what is known of this node.
        now: seconds since the epoch.
    """
    yield from of_record(known)
    if known.latest is None:
        yield "no run of node-health has ended in this container"
        return
    results = known.latest.results
    yield f"{known.latest.verdict}: the last run ended {span(now - known.latest.at)} ago, at {moment(known.latest.at)}"
    passed = [result for result in results if result.finding.verdict is Verdict.PASS]
    for result in sorted(results, key=lambda result: [*Verdict][::-1].index(result.finding.verdict)):
        if result.finding.verdict is not Verdict.PASS:
            yield from _of_result(result, known.history, now)
    slowest = sorted(results, key=lambda result: -result.seconds)[:3]
    times = ", ".join(f"{result.check} {result.seconds:.3f} s" for result in slowest)
    yield f"{len(passed)} checks pass, {len(known.latest.skipped)} are skipped; the slowest: {times or 'none'}"
    for check, why in known.latest.skipped.items():
        yield f"SKIPPED {check}: {why}"
    if known.history.changes:
        yield "changes, the latest first:"
    for change in known.history.changes[: -_SHOWN - 1 : -1]:
        yield f"  {moment(change.at)} {change.verdict} {change.check}: {change.evidence}"


def of_record(known: Known) -> Iterator[str]:
    """Returns what slurmctld says of the node: its state, what drains it, and who lifts that."""
    if not known.record:
        yield f"{known.name}: slurmctld does not answer"
        return
    state = re.search(r"\bState=(\S+)", known.record)
    yield f"{known.name}: {state[1] if state else 'UNKNOWN'}"
    # Comment, Extra and InstanceId follow the reason's author (slurm, src/api/node_info.c).
    reason = re.search(r"\bReason=(.*?) \[([^\s@]+)@(\S+)\](?: .*)?\s*$", known.record)
    if reason:
        why, user, since = reason.groups()
        yield f"  {why}"
        yield f"  set by {user} at {since}; {_lifted_by(why, known)}"
    if note := re.search(r"\bExtra=(\S.*?)(?: InstanceId=.*)?\s*$", known.record):
        yield f"  Extra: {note[1]}"


def _of_result(result: Result, told: History, now: float) -> Iterator[str]:
    change = told.latest.get(result.check)
    yield result.line
    if change:
        yield f"        since {moment(change.at)}, for {span(now - change.at)}; {_before(change)}"
    if result.remedy:
        yield f"        remedy: {result.remedy} ({result.action})"


def _before(change: Change) -> str:
    return f"not so in the run at {moment(change.before)}" if change.before else "no run was before"


def _lifted_by(reason: str, known: Known) -> str:
    command = commands.scontrol(known.namespace, f"update nodename={known.name} state=undrain")
    return next(words for begin, words in _LIFTED_BY if reason.startswith(begin)).format(command)


def namespace(resolver: str) -> str:
    """Returns the namespace of a pod with such an /etc/resolv.conf, which the kubelet writes."""
    search = re.search(r"^search (?:.* )?([a-z0-9-]+)\.svc\.", resolver, re.MULTILINE)
    return search[1] if search else UNKNOWN_NAMESPACE


def _own_namespace() -> str:
    try:
        return namespace(_RESOLVER.read_text())
    except OSError:
        return UNKNOWN_NAMESPACE


def moment(at: float) -> str:
    """Returns a time since the epoch as a date in UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"


def span(seconds: float) -> str:
    """Returns a span of time in its two largest units."""
    left, words = max(0, int(seconds)), list[str]()
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        if left >= size or (unit == "s" and not words):
            words.append(f"{left // size} {unit}")
            left %= size
    return " ".join(words[:2])


def main(name: str = "") -> int:
    """Prints the explanation of this node; of another one what slurmctld knows, and the command for the rest."""
    own, ours = socket.gethostname(), _own_namespace()
    record = _record(name or own)
    if name not in ("", own):
        print("\n".join(of_record(Known(name, record, namespace=ours))))
        print(f"its checks run in its own pod: {commands.kubectl(ours, f'exec {name} -- node-health explain')}")
        return 0
    latest = report.read(node.RESULTS)
    print("\n".join(lines(Known(own, record, latest, history.read(node.HISTORY), ours), time.time())))
    return NOTHING if latest is None else 0


def _record(name: str) -> str:
    """Returns what scontrol prints of a node within some seconds, empty if it fails."""
    answered = tool.run(Machine(), ["/usr/bin/timeout", str(ANSWERS_WITHIN), SCONTROL, "-o", "show", "node", name])
    return printable(answered.printed) if answered.code == 0 else ""
