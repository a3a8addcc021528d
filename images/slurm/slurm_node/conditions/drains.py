"""The node's own drain: causes come from jail probes and from health checks.

A cause drains the node, with the cause as reason. When it is gone, and a test step ran in the jail, our drain is
lifted. Drains with another reason stay as they are.
"""

import contextlib
import math
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from contract import names, reasons
from slurm_node.pod import paths
from slurm_node.pod.log import say

OWN_USER = "root"
"""The user as whom this pod calls Slurm."""
OWN_USERS = (OWN_USER, names.SLURM_USER)
"""Users that are no persons. An administrator drains as himself, and Slurm refuses root of the jail."""
OF_PROLOG = "Prolog error"
"""Slurmctld's reason when a prolog refused a job. The drain is ours if this node's own prolog did."""
OF_EPILOG = "Epilog error"
"""Its reason when an epilog failed. The drain is ours if this node's own did, which it does while hardware is bad."""
OF_BATCH = "batch job complete failure"
"""Its reason when a batch job did not start. The drain is ours if the plugin refused it (native/spank/spank_jail.c)."""
LESS_TELLING = (OF_BATCH, OF_PROLOG, OF_EPILOG, "Kill task failed", reasons.NEW)
"""Reasons that ours may replace if no person wrote them. slurmctld writes them when a step fails to start.

A node registers with the last one until it is checked.
"""
RETRY_SECONDS = 10.0
"""Time between attempts to tell slurmctld."""
REPEAT_SECONDS = 30.0
"""Time between two checks that the node is still drained, while there is a cause."""
REFUSAL_SECONDS = 300.0
"""Time after a refused job in which slurmctld may still drain for it, also when the cause is gone."""
SETTLE_SECONDS = 20.0
"""Shortest time of a drain for a refused job, enough for a jail probe that began later."""
SCONTROL_SECONDS = 10
LONGEST_REASON = 200
_TAME = str.maketrans('"[]', "'()")

Causes = Mapping[str, str | None]
"""Start of a drain's reason → why no job may run here, or None when that is well.

A cause of which nothing is known is missing. It neither drains nor lifts a drain.
"""


@dataclass(frozen=True, slots=True)
class Drain:
    """Give the node no new jobs."""

    reason: str


@dataclass(frozen=True, slots=True)
class Undrain:
    """Lift our drain."""


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """This node as slurmctld sees it. `user` wrote the reason.

    `drained` is also true after somebody set it to FAIL, or DOWN for a reason.
    """

    drained: bool
    reason: str
    user: str


def reaction(causes: Causes, node: NodeRecord) -> Drain | Undrain | None:
    """The change of the node's drain, if any.

    Args:
        causes: what is known, the most important first.
        node: the node's record.
    """
    cause = node.reason.partition(": ")[0]
    ours = node.drained and node.user in OWN_USERS and node.reason.startswith(reasons.UNFIT)
    speaking = [f"{begin}: {plain(why)}" for begin, why in causes.items() if why is not None]
    if ours and not {cause, reasons.JAIL} <= causes.keys():
        return None  # It is not known whether the cause still exists, nor whether a job could run.
    if not speaking:
        return Undrain() if ours else None
    replaceable = node.user in OWN_USERS and node.reason.startswith(LESS_TELLING)
    if node.drained and not ours and not replaceable:
        return None
    wanted = speaking[0][:LONGEST_REASON]
    return None if ours and node.reason == wanted else Drain(wanted)


def parse_record(text: str) -> NodeRecord:
    """Reads what ``scontrol -o show node NAME`` prints."""
    state = re.search(r"\bState=(\S+)", text)
    # After the user and the time, further fields may follow: Comment, Extra, InstanceId (slurm, src/api/node_info.c).
    reason = re.search(r"\bReason=(.*?)(?: \[([^\s@]+)@\S+\](?: .*)?)?\s*$", text)
    flags = {*re.findall("[A-Z_]+", state[1] if state else "")}
    why, user = (reason[1], reason[2] or "") if reason else ("", "")
    out = flags & {"DRAIN", "FAIL"} or ("DOWN" in flags and why not in ("", reasons.NOT_RESPONDING))
    return NodeRecord(bool(out), why, user)


def plain(sentence: str) -> str:
    """The sentence as one line that fits into a node's reason, without quotes and the brackets of its author."""
    return " ".join(re.sub(r"[^ -~]", " ", sentence).translate(_TAME).split())[:LONGEST_REASON]


class OwnDrain:
    """Drains the node in slurmctld and lifts the drain. It acts when a cause changes, and again while there is one.

    Args:
        node_name: this node in Slurm.
        scontrol: runs scontrol with arguments; returns what it printed, or None when slurmctld does not answer.
        refused: the file with why the prolog or the plugin refused a job, or why the epilog failed.
    """

    def __init__(
        self,
        node_name: str,
        scontrol: Callable[..., str | None] | None = None,
        refused: Path = paths.PROLOG_REFUSED,
    ) -> None:
        self._refused = refused
        self._refusal, self._refused_at = "", -math.inf
        self._node_name = node_name
        self._scontrol = scontrol or run_scontrol
        self._told: Causes = {}
        self._next = 0.0
        self._repeat = 0.0

    def tick(self, now: float, causes: Causes, *, hurries: bool = False) -> bool:
        """Called about twice a second. Returns at once, unless it has to call scontrol.

        Args:
            now: of the monotonic clock, in seconds.
            causes: as for `reaction`.
            hurries: asks again although slurmctld has just not answered.

        Returns:
            whether slurmctld was told of these causes, and answered if it was asked now.
        """
        self._heed_refusal(now)
        since_refusal = now - self._refused_at
        bad = any(causes.values()) or since_refusal < REFUSAL_SECONDS
        is_due = hurries or now >= self._next
        if not is_due or (causes == self._told and not (bad and now >= self._repeat)):
            return causes == self._told
        if not self._tell(causes, self._refusal if SETTLE_SECONDS <= since_refusal < REFUSAL_SECONDS else ""):
            self._next = now + RETRY_SECONDS
            return False
        self._told, self._next, self._repeat = dict(causes), now, now + REPEAT_SECONDS
        return True

    def _heed_refusal(self, now: float) -> None:
        with contextlib.suppress(FileNotFoundError):
            why = plain(self._refused.read_text())
            self._refused.unlink()
            self._refusal = why if why.startswith(reasons.UNFIT) else f"{reasons.JAIL}: {why}"
            self._refused_at, self._repeat = now, now + SETTLE_SECONDS

    def _tell(self, causes: Causes, refusal: str) -> bool:
        """Drains or undrains the node as needed; False when slurmctld did not answer.

        Args:
            causes: as for `reaction`.
            refusal: why a job was refused lately; empty if none was.
        """
        printed = self._scontrol("-o", "show", "node", self._node_name)
        if printed is None:
            return False
        record = parse_record(printed)
        of_slurm = record.user in OWN_USERS and record.reason.startswith((OF_PROLOG, OF_EPILOG, OF_BATCH))
        if refusal and of_slurm and not any(causes.values()):
            record = replace(record, reason=refusal, user=OWN_USER)
        match reaction(causes, record):
            case Drain(reason):
                say(f"draining this node: {reason}")
                return self._update("state=drain", f"reason={reason}")
            case Undrain():
                say("lifting this node's drain")
                return self._update("state=undrain")
        return True

    def _update(self, *changes: str) -> bool:
        return self._scontrol("update", f"nodename={self._node_name}", *changes) is not None


def run_scontrol(*arguments: str) -> str | None:
    """Runs scontrol as root of this node; None when it fails or takes too long."""
    try:
        done = subprocess.run(
            [f"{paths.PREFIX}/bin/scontrol", *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SCONTROL_SECONDS,
            check=False,
        )
    except (subprocess.TimeoutExpired, OSError):  # the system refuses another process
        return None
    return done.stdout if done.returncode == 0 else None
