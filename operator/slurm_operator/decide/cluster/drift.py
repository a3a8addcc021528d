"""Decides about drift of declared objects: which to restore, and what to tell about it.

The API server itself tells whether an object has drifted: an apply of the declared fields changes nothing if nothing
has. An apply leaves alone the fields that others added. Where Pulumi owns everything, these are then removed one by
one. The owners of fields before and after tell what had drifted.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from contract import names
from contract.conditions import ConditionType, Reason
from slurm_operator.decide.cluster import ownership
from slurm_operator.findings import Condition, Finding, shown

Object = Mapping[str, Any]
Key = tuple[str, str]
"""Kind and name."""

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

_CLAIM = "PersistentVolumeClaim"
_LABELS = ("f:metadata", "f:labels")
_ALL_OURS = (("f:data",), ("f:binaryData",), ("f:spec",))
"""Places where a field of another owner is drift. Annotations are none: controllers keep their notes there."""
_REPLICAS = ("f:spec", "f:replicas")
_IMMUTABLE = "f:immutable"


@dataclasses.dataclass(frozen=True, slots=True)
class Ledger:
    """Pulumi's declared objects by kind and name; `problems` names those that cannot be held, and why."""

    revision: str
    objects: Mapping[Key, Object]
    problems: tuple[Finding, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Check:
    """Apply an object; `before` is its observed state, None if it is missing."""

    declared: Object
    before: Object | None


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
        f"{what} in {minutes} minutes: nothing is healed until you run pulumi up --refresh",
    )


def plan(
    ledger: Ledger,
    live: Mapping[Key, Object | None],
    clean: Mapping[Key, str],
    healed: Mapping[Key, Iterable[datetime.datetime]],
    failures: Mapping[Key, Failure],
    now: datetime.datetime,
) -> Plan:
    """Decide which objects to apply.

    Args:
        ledger: what is declared.
        live: observed objects, None for a missing one; objects that nobody could read have no entry.
        clean: fingerprints of objects that were found to be, or made, as declared.
        healed: times of recent repairs by object.
        failures: failed repairs by object.
        now: the time.
    """
    checks: list[Check] = []
    problems, resting = list(ledger.problems), set[Key]()
    for key, declared in ledger.objects.items():
        if key not in live:
            continue
        before = live[key]
        if key[0] == _CLAIM and (before is None or _leaving(before)):
            message = f"{_title(key)} was deleted; what is on the volume cannot be declared: restore it by hand"
            problems.append(Finding(Reason.CLAIM_DELETED, message))
        elif before is not None and (
            _leaving(before) or clean.get(key) == fingerprint(before) or _switched_off(key, before)
        ):
            continue
        elif sum(now - moment < FOUGHT_WITHIN for moment in healed.get(key, ())) >= FOUGHT_OVER:
            others = ", ".join(sorted({manager for manager, _ in ownership.foreign(before or _NOTHING)}))
            message = f"{_title(key)} is changed again and again; it was written by {others or 'nobody known'}"
            problems.append(Finding(Reason.HEALING_FOUGHT, message))
        elif key in failures and _rests(failures[key], before, now):
            resting.add(key)
        else:
            checks.append(Check(declared, before))
    return Plan(tuple(checks), tuple(problems), frozenset(resting))


def refused(check: Check, last: Failure | None, why: Finding, now: datetime.datetime) -> Failure:
    """Record that a repair was refused, or not answered: the next try follows after twice the pause."""
    times = last.times + 1 if last else 1
    title = _title((check.declared["kind"], check.declared["metadata"]["name"]))
    problem = Finding(why.reason, f"{title} cannot be restored: {why.message}"[:_WORDS])
    return Failure(times, now + _pause(times), _said(check.before), problem)


def conflicted(check: Check, last: Failure | None, now: datetime.datetime) -> Failure:
    """Record a conflict: the object had changed since it was seen. The first ones are tried again at once."""
    times = last.times + 1 if last else 1
    if times < CONFLICTS_TOLD:
        return Failure(times, now, "", None)
    title = _title((check.declared["kind"], check.declared["metadata"]["name"]))
    problem = Finding(Reason.ACTION_FAILED, f"{title} cannot be restored: it is never as it was seen")
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


def body(check: Check) -> dict[str, Any]:
    """Return the body to apply: the declared fields, on the very object that was seen.

    It names the uid, so that the API server refuses it if the object was deleted meanwhile. With the resourceVersion
    alone, the apply would create the object anew: a StatefulSet of one pod, for example, whose other pods would end.

    Only the size of a claim can be changed, and an administrator may have raised it. So its spec is sent as it stands.
    """
    declared = dict(check.declared)
    if check.before is not None:
        declared["metadata"] = {**declared["metadata"], **identity(check.before)}
        if declared["kind"] == _CLAIM:
            declared["spec"] = {
                key: check.before["spec"][key] for key in declared["spec"] if key in check.before["spec"]
            }
    return declared


def identity(live: Object) -> dict[str, str]:
    """Return the metadata that binds a change to the object that was seen: the API server refuses it for another."""
    return {key: live["metadata"][key] for key in ("name", "uid", "resourceVersion")}


def sized_by_operator(declared: Object) -> bool:
    """Return whether the operator sets the size of a StatefulSet. A new one then gets the size of its pods."""
    return bool(declared["kind"] == "StatefulSet" and "replicas" not in declared["spec"])


def size_of(stateful_set: str, pods: Iterable[str]) -> int:
    """Return the smallest size of a StatefulSet that deletes none of its pods."""
    matches = [re.fullmatch(re.escape(stateful_set) + r"-(\d+)", name) for name in pods]
    return max((int(match.group(1)) + 1 for match in matches if match), default=0)


def gives_back(live: Object) -> bool:
    """Return whether the operator owns more of a StatefulSet than its size, as after it has made it."""
    return any(path != _REPLICAS for path in ownership.leaves(ownership.operators(live)))


def surplus(live: Object) -> list[ownership.Path]:
    """Return the fields that others added where Pulumi owns everything."""
    return _surplus(live, ownership.declared(live))


def _surplus(live: Object, ours: ownership.Tree) -> list[ownership.Path]:
    roots = (_LABELS,) if live["kind"] == _CLAIM else (*_ALL_OURS, _LABELS)
    by_path = {
        path
        for _, fields in ownership.foreign(live)
        for root in roots
        for path in ownership.lacking(ownership.within(fields, root), ownership.within(ours, root), root)
    }
    frozen = any(_IMMUTABLE in fields for _, fields in ownership.foreign(live)) and _IMMUTABLE not in ours
    return sorted(by_path - {_REPLICAS}) + ([(_IMMUTABLE,)] if frozen else [])


def is_unowned(live: Object) -> bool:
    """Return whether somebody removed `managedFields`, so that no field has a known owner."""
    return not live["metadata"].get("managedFields")


def handing_over(live: Object) -> dict[str, Any] | None:
    """Return a merge patch that gives the fields of others to Pulumi, on the object that was seen; None without any.

    An apply under Pulumi's name then removes what is not declared and restores what is, in one request. In two, an
    object of neither state would have to be valid: a Service with two ports of one nodePort, or with no port.
    The size of a set and annotations stay with whoever wrote them: what is Pulumi's and not declared would go.
    """
    paths = surplus(live)
    if not paths:
        return None

    def goes(field: ownership.Path) -> bool:
        added = any(field[: len(path)] == path for path in paths)
        return added and field != _REPLICAS and "f:annotations" not in field

    return {"metadata": {**identity(live), "managedFields": ownership.handed_over(live, goes)}}


def describe(before: Object | None, after: Object) -> str:
    """Return what was restored, without values; empty if nothing was.

    Args:
        before: the object as it was, None if it was missing.
        after: as it is now.
    """
    title = _title((after["kind"], after["metadata"]["name"]))
    if before is None:
        return f"restored {title}, which was deleted"
    if fingerprint(before) == fingerprint(after):
        return ""
    held, holds = ownership.declared(before), ownership.declared(after)
    restored = [path for path in ownership.leaves(holds) if not ownership.has(held, path)]
    paths = [*restored, *_surplus(before, holds)]
    if not paths:
        return f"restored {title}, which was changed under the name of Pulumi"
    rows = [f"{ownership.text(path)} ({_by(before, path)})" for path in paths]
    return f"restored {title}: {shown(rows, 8)}"


def fingerprint(live: Object) -> str:
    """Return a hash of an object without its status and its writers."""
    hidden = ("resourceVersion", "managedFields", "generation")
    metadata = {key: value for key, value in live["metadata"].items() if key not in hidden}
    content = {key: value for key, value in live.items() if key not in ("status", "metadata", "apiVersion", "kind")}
    return hashlib.sha256(json.dumps([metadata, content], sort_keys=True).encode()).hexdigest()


def _by(before: Object, path: ownership.Path) -> str:
    managers = ownership.writers(before, path)
    return f"by {', '.join(managers)}" if managers else "removed, nobody is noted"


def _leaving(live: Object) -> bool:
    return "deletionTimestamp" in live["metadata"]


def _title(key: Key) -> str:
    return f"{key[0]} {key[1]}"
