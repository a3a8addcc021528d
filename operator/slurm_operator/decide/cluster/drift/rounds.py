"""Decides, round by round, which declared objects to restore, and what to tell about drift."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping

from contract import names
from contract.conditions import ConditionType, Reason
from slurm_operator.decide.cluster import ownership
from slurm_operator.decide.cluster.drift.restore import CLAIM, Check, Key, Object, fingerprint, title
from slurm_operator.findings import Condition, Finding

PATIENCE = datetime.timedelta(minutes=30)
"""An update that has not ended by then is taken for one that failed: Pulumi itself waits no longer by default."""
FOUGHT_OVER = 10
"""After so many repairs of one object within FOUGHT_WITHIN, the next one waits: somebody else changes it back."""
FOUGHT_WITHIN = datetime.timedelta(minutes=1)
FIRST_PAUSE = datetime.timedelta(seconds=3)
LONGEST_PAUSE = datetime.timedelta(minutes=1)
CONFLICTS_TOLD = 5
"""Rounds in a row with a conflict about one object, after which the operator reports it and pauses."""
_WORDS = 400
"""Characters of a refusal that are reported: the API server quotes the whole of a workload."""


@dataclasses.dataclass(frozen=True, slots=True)
class Ledger:
    """Pulumi's declared objects by kind and name; `problems` names those that cannot be held, and why."""

    revision: str
    objects: Mapping[Key, Object]
    problems: tuple[Finding, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """Decisions of one round: objects to apply, problems to tell, and objects whose next try is later."""

    checks: tuple[Check, ...]
    problems: tuple[Finding, ...]
    resting: frozenset[Key] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """Failed repairs of an object in a row.

    Attributes:
        times: how many.
        until: when the next try is due.
        seen: what the object said, whose change makes a try worth while at once; empty if any change does not.
        problem: what to tell, None while there is nothing to tell yet.
    """

    times: int
    until: datetime.datetime
    seen: str
    problem: Finding | None


def standing(revision: str, ledger: Ledger | None, paused: datetime.datetime, now: datetime.datetime) -> Condition:
    """Return the condition Healing: whether declared objects are held now.

    Args:
        revision: the revision that the SlurmCluster says is declared completely.
        ledger: what is declared, None if there is no ledger that can be read.
        paused: since when it has been paused, `now` if it was not.
        now: the time.
    """
    kind = ConditionType.HEALING
    if ledger is None:
        return Condition(kind, "False", Reason.LEDGER_MISSING, "there is no ledger; run pulumi up --refresh")
    if ledger.revision == revision:
        return Condition(kind, "True", Reason.HELD, f"{len(ledger.objects)} objects are held as declared")
    what = f"Pulumi began revision {ledger.revision} and has not completed it"
    if now - paused < PATIENCE:
        return Condition(kind, "False", Reason.UPDATE_IN_PROGRESS, f"{what}: edits are not undone until it has")
    minutes = int(PATIENCE.total_seconds() // 60)
    return Condition(
        kind,
        "False",
        Reason.UPDATE_FAILED,
        f"{what} in {minutes} minutes: nothing is restored until you run pulumi up --refresh",
    )


def plan(
    ledger: Ledger,
    live: Mapping[Key, Object | None],
    clean: Mapping[Key, str],
    restored: Mapping[Key, Iterable[datetime.datetime]],
    failures: Mapping[Key, Failure],
    now: datetime.datetime,
) -> Plan:
    """Decide which objects to apply.

    Args:
        ledger: what is declared.
        live: observed objects, None for a missing one; objects that nobody could read have no entry.
        clean: fingerprints of objects that were found to be, or made, as declared.
        restored: times of recent repairs by object.
        failures: failed repairs by object.
        now: the time.
    """
    checks: list[Check] = []
    problems, resting = list(ledger.problems), set[Key]()
    for key, declared in ledger.objects.items():
        if key not in live:
            continue
        before = live[key]
        if key[0] == CLAIM and (before is None or _leaving(before)):
            message = f"{title(key)} was deleted; what is on the volume cannot be declared: restore it by hand"
            problems.append(Finding(Reason.CLAIM_DELETED, message))
        elif before is not None and (
            _leaving(before) or clean.get(key) == fingerprint(before) or _switched_off(key, before)
        ):
            continue
        elif sum(now - moment < FOUGHT_WITHIN for moment in restored.get(key, ())) >= FOUGHT_OVER:
            others = ", ".join(sorted({manager for manager, _ in ownership.foreign(before or _NOTHING)}))
            message = f"{title(key)} is changed again and again; it was written by {others or 'nobody known'}"
            problems.append(Finding(Reason.HEALING_FOUGHT, message))
        elif key in failures and _rests(failures[key], before, now):
            resting.add(key)
        else:
            checks.append(Check(declared, before))
    return Plan(tuple(checks), tuple(problems), frozenset(resting))


def refused(check: Check, last: Failure | None, why: Finding, now: datetime.datetime) -> Failure:
    """Record that a repair was refused, or not answered: the next try follows after twice the pause."""
    times = last.times + 1 if last else 1
    problem = Finding(why.reason, f"{title(check.key)} cannot be restored: {why.message}"[:_WORDS])
    return Failure(times, now + _pause(times), _said(check.before), problem)


def conflicted(check: Check, last: Failure | None, now: datetime.datetime) -> Failure:
    """Record a conflict: the object had changed since it was seen. The first ones are tried again at once."""
    times = last.times + 1 if last else 1
    if times < CONFLICTS_TOLD:
        return Failure(times, now, "", None)
    words = f"{title(check.key)} cannot be restored: it is never as it was seen"
    problem = Finding(Reason.ACTION_FAILED, words)
    return Failure(times, now + _pause(times - CONFLICTS_TOLD + 1), "", problem)


def _rests(failure: Failure, before: Object | None, now: datetime.datetime) -> bool:
    return now < failure.until and failure.seen in ("", _said(before))


def _pause(times: int) -> datetime.timedelta:
    doublings = min(times - 1, 10)
    return min(LONGEST_PAUSE, FIRST_PAUSE * (1 << doublings))


def _said(before: Object | None) -> str:
    return "missing" if before is None else fingerprint(before)


_NOTHING: Object = {"metadata": {}}


def _switched_off(key: Key, live: Object) -> bool:
    """Return whether somebody stops the operator itself: to restore its size would be a race with its own end."""
    return key == ("Deployment", names.OPERATOR) and live["spec"].get("replicas") == 0


def _leaving(live: Object) -> bool:
    return "deletionTimestamp" in live["metadata"]
