"""Writes status and Events. A status is written only when it says something new."""

from __future__ import annotations

import dataclasses
import datetime
import logging
import time
from collections.abc import Iterable, Mapping

from contract import names
from contract.conditions import ConditionType, Reason
from slurm_operator.clients.kubernetes import KubernetesApi, KubernetesError, Object
from slurm_operator.clients.lease import Lease
from slurm_operator.decide.cluster.status import Counts
from slurm_operator.decide.nodes import pod_conditions
from slurm_operator.decide.nodes.pod_conditions import Told
from slurm_operator.findings import MAX_MESSAGE, Condition
from slurm_operator.state.kubernetes import PodCondition
from slurm_operator.state.resources import Restart
from slurm_operator.timestamps import timestamp

log = logging.getLogger(__name__)

OF_EACH_STATUS = frozenset({"conditions", "message", "observedGeneration"})
"""Fields of a status that are written with its conditions."""
_FOR_TOOLS = frozenset({ConditionType.READY, ConditionType.RECONCILING, ConditionType.STALLED})
"""Conditions without Events of their own: they repeat others, which have Events."""


def restart(noted: Restart) -> Object:
    """Write a restart or replacement as a NodeSet's status remembers it."""
    more: Object = {"replace": True} if noted.replace else {}
    more |= {"uid": noted.uid} if noted.uid else {}
    return {"node": noted.node, "at": timestamp(noted.at), **more}


def counts(totals: Counts) -> dict[str, int]:
    """Counts of nodes as a SlurmCluster's status has them, without those that are not known."""
    known = {key: value for key, value in dataclasses.asdict(totals).items() if value is not None}
    return {"drainedByPeople" if key == "by_people" else key: value for key, value in known.items()}


def headline(conditions: Iterable[Condition]) -> str:
    """Return the most important message: why it is not available, else what is wrong, else what is under way."""
    by_type = {condition.type: condition for condition in conditions}
    available = by_type[ConditionType.AVAILABLE]
    if available.status != "True":
        return available.message
    told = (
        by_type[kind] for kind in (ConditionType.DEGRADED, ConditionType.PROGRESSING) if by_type[kind].status == "True"
    )
    drained = by_type.get(ConditionType.DRAINED_BY_PEOPLE)
    well = f"{available.message}; {drained.message}" if drained and drained.status == "True" else available.message
    return next((condition.message for condition in told), well)


def warns(kind: str, conditions: Mapping[str, Condition]) -> bool:
    """Return whether a condition reports a fault.

    Pulumi shows each Warning about what it waits for. While something is under way, unavailability is no fault: what is
    wrong then stands in Degraded.
    """
    now_is = conditions[kind]
    match kind:
        case ConditionType.DEGRADED:
            return now_is.status == "True"
        case ConditionType.AVAILABLE:
            return now_is.status != "True" and conditions[ConditionType.PROGRESSING].status != "True"
        case ConditionType.PROGRESSING | ConditionType.SCALED_OUTSIDE_PULUMI | ConditionType.DRAINED_BY_PEOPLE:
            return False
    return now_is.status != "True" and now_is.reason != Reason.UPDATE_IN_PROGRESS


class Reporter:
    """Writes status and Events of one namespace, only while the lease is ours."""

    def __init__(self, api: KubernetesApi, lease: Lease) -> None:
        self._api = api
        self._lease = lease

    async def write_status(
        self,
        body: Object,
        conditions: tuple[Condition, ...],
        fields: dict[str, object],
        *,
        all_of_them: bool = False,
    ) -> None:
        """Write a resource's status if it differs from what is there, and the Event of each condition that changed.

        A condition of which nothing is said now stays as it was, unless these are `all_of_them`. Events come first,
        since a status that was written is not written again. An operator that dies between the two has then told the
        Event.
        """
        before, now = body.get("status", {}), datetime.datetime.now(datetime.UTC)
        old = {item["type"]: item for item in before.get("conditions", [])}
        generation = body["metadata"]["generation"]
        kept = {} if all_of_them else old
        rows = [row for kind, row in kept.items() if kind not in {condition.type for condition in conditions}]
        for condition in conditions:
            known = old.get(condition.type, {})
            since = known.get("lastTransitionTime") if known.get("status") == condition.status else None
            times = {"observedGeneration": generation, "lastTransitionTime": since or timestamp(now)}
            rows.append(dataclasses.asdict(condition) | times)
        after = {key: value for key, value in fields.items() if value is not None}
        after |= {"observedGeneration": generation, "message": headline(conditions), "conditions": rows}
        if after == before:
            return
        self._lease.check()
        was = {kind: Condition(kind, row["status"], row["reason"], row["message"]) for kind, row in old.items()}
        now_are = {condition.type: condition for condition in conditions}
        for kind, now_is in now_are.items():
            if kind in _FOR_TOOLS:
                continue
            warning = warns(kind, now_are)
            if was.get(kind) == now_is and warns(kind, was) == warning:
                continue
            if kind not in was or was[kind].status != now_is.status:
                name = f"{body['kind']} {body['metadata']['name']}"
                log.info("condition changed: %s %s%s reason=%s", name, kind, now_is.status, now_is.reason)
            reason = f"{kind}{now_is.status}"
            await self.standing_event(body, kind, reason, now_is.message, warning=warning)
        self._lease.check()
        update = {"apiVersion": names.API_VERSION, "kind": body["kind"], "metadata": {"name": body["metadata"]["name"]}}
        await self._api.apply(
            names.API_VERSION, f"{body['kind'].lower()}s", {**update, "status": after}, subresource="status"
        )

    async def write_pod_conditions(self, told: Told) -> None:
        """Write Slurm's state and the checks' verdict on a pod.

        KubernetesError 404, 409 or 422 says that another has its name by now.

        An apply owns its own conditions alone: those of kubelet and others stay. It has both, since one that an apply
        leaves out is taken away.
        """
        conditions = [_row(pod_conditions.TYPE, told.slurm), _row(pod_conditions.HEALTH, told.health)]
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": told.pod, "uid": told.uid}}
        self._lease.check()
        await self._api.apply("v1", "pods", {**body, "status": {"conditions": conditions}}, subresource="status")

    async def standing_event(self, body: Object, subject: str, reason: str, message: str, *, warning: bool) -> None:
        """Write the one Event about a subject, or change it: a Warning that is over would be shown until it expires.

        One that says so already is left alone: an operator that dies after each write comes to its status all the
        same. To delete one would need another right, and Pulumi shows a deleted Warning once more. Only core/v1 lets
        words change.
        """
        metadata, told = body["metadata"], timestamp(datetime.datetime.now(datetime.UTC))
        name = f"{metadata['name']}.{metadata['uid'].partition('-')[0]}.{subject.lower()}"
        words: Object = {
            "reason": reason,
            "message": message[:MAX_MESSAGE],
            "type": "Warning" if warning else "Normal",
            "lastTimestamp": told,
            "reportingComponent": names.OPERATOR_FIELD_MANAGER,
            "reportingInstance": self._api.instance,
        }
        whole = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name},
            "involvedObject": _reference(body),
            "source": {"component": names.OPERATOR_FIELD_MANAGER},
            "firstTimestamp": told,
            "count": 1,
            **words,
        }
        try:
            there = await self._api.get("v1", "events", name)
            if there is not None and all(there.get(key) == words[key] for key in ("reason", "message", "type")):
                return
            self._lease.check()
            if there is None:
                await self._api.create("v1", "events", whole)
            else:
                await self._api.merge("v1", "events", name, words)
        except KubernetesError as error:
            log.warning("event not written: reason=%s error=%s", reason, error)

    async def event(self, body: Object, reason: str, note: str) -> None:
        """Write an Event about a decision. If that fails, the decision stays."""
        metadata = body["metadata"]
        now = time.time_ns()
        moment = datetime.datetime.fromtimestamp(now / 1e9, datetime.UTC).isoformat(timespec="microseconds")
        told = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{metadata['name']}.{now:x}"},
            "eventTime": moment.replace("+00:00", "Z"),
            "reportingController": names.OPERATOR_FIELD_MANAGER,
            "reportingInstance": self._api.instance,
            "action": reason,
            "reason": reason,
            "regarding": _reference(body),
            "note": note[:MAX_MESSAGE],
            "type": "Normal",
        }
        try:
            await self._api.create("events.k8s.io/v1", "events", told)
        except KubernetesError as error:
            log.warning("event not written: reason=%s error=%s", reason, error)


def _row(kind: str, condition: PodCondition) -> dict[str, str]:
    """A condition as a pod has it."""
    since = condition.since or timestamp(datetime.datetime.now(datetime.UTC))
    said = {"status": condition.status, "reason": condition.reason, "message": condition.message}
    return {"type": kind, **said, "lastTransitionTime": since}


def _reference(body: Object) -> dict[str, str]:
    metadata = body["metadata"]
    which = {key: metadata[key] for key in ("name", "namespace", "uid")}
    return {"apiVersion": names.API_VERSION, "kind": body["kind"], **which}
