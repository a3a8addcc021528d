"""Writes status and Events. A status is written only when it says something new."""

from __future__ import annotations

import dataclasses
import datetime
import logging
import time
from collections.abc import Iterable

from slurm_operator import names
from slurm_operator.decisions.findings import Condition
from slurm_operator.kubernetes_api import KubernetesApi, KubernetesError, Object
from slurm_operator.lease import Lease
from slurm_operator.observe import CUSTOM_API
from slurm_operator.seen import Restart

log = logging.getLogger(__name__)


def timestamp(moment: datetime.datetime) -> str:
    """Format as Kubernetes does."""
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def restart(noted: Restart) -> Object:
    """Write a restart or replacement as a NodeSet's status remembers it."""
    more = {"replace": True} if noted.replace else {}
    return {"node": noted.node, "at": timestamp(noted.at), **more}


def headline(conditions: Iterable[Condition]) -> str:
    """The sentence that matters most: why it is not available, else what is wrong, else what moves."""
    by_type = {condition.type: condition for condition in conditions}
    available, degraded, progressing = (by_type[kind] for kind in ("Available", "Degraded", "Progressing"))
    if available.status != "True":
        return available.message
    return next((each.message for each in (degraded, progressing) if each.status == "True"), available.message)


async def write_status(
    api: KubernetesApi, lease: Lease, body: Object, conditions: tuple[Condition, ...], fields: dict[str, object]
) -> None:
    """Write a resource's status if it differs from what is there, with an Event for each condition that changed.

    A condition of which nothing is said now stays as it was. That healing has been paused for too long is a change too.
    """
    before, now = body.get("status", {}), datetime.datetime.now(datetime.UTC)
    old = {item["type"]: item for item in before.get("conditions", [])}
    generation = body["metadata"]["generation"]
    rows = [row for kind, row in old.items() if kind not in {each.type for each in conditions}]
    for condition in conditions:
        known = old.get(condition.type, {})
        kept = known.get("lastTransitionTime") if known.get("status") == condition.status else None
        times = {"observedGeneration": generation, "lastTransitionTime": kept or timestamp(now)}
        rows.append(dataclasses.asdict(condition) | times)
    after = {key: value for key, value in fields.items() if value is not None}
    after |= {"observedGeneration": generation, "message": headline(conditions), "conditions": rows}
    if after == before:
        return
    lease.check()
    metadata = {"name": body["metadata"]["name"]}
    update = {"apiVersion": CUSTOM_API, "kind": body["kind"], "metadata": metadata, "status": after}
    await api.apply(CUSTOM_API, f"{body['kind'].lower()}s", update, subresource="status")
    for now_is in (each for each in conditions if _news(old.get(each.type, {}), each)):
        bad = (now_is.status == "True") == (now_is.type == "Degraded") and now_is.reason != "UpdateInProgress"
        name = f"{body['kind']} {metadata['name']}"
        log.info("condition changed: %s %s%s reason=%s", name, now_is.type, now_is.status, now_is.reason)
        warning = bad and now_is.type not in ("Progressing", "ScaledOutsidePulumi")
        await event(api, body, f"{now_is.type}{now_is.status}", now_is.message, warning=warning)


def _news(known: dict[str, str], now_is: Condition) -> bool:
    worse = now_is.reason == "UpdateFailed" != known.get("reason")
    return worse or known.get("status") != now_is.status


async def event(api: KubernetesApi, body: Object, reason: str, note: str, *, warning: bool = False) -> None:
    """Tell about a decision; a failure to tell must not undo or stop it."""
    metadata = body["metadata"]
    now = time.time_ns()
    moment = datetime.datetime.fromtimestamp(now / 1e9, datetime.UTC).isoformat(timespec="microseconds")
    told = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{metadata['name']}.{now:x}"},
        "eventTime": moment.replace("+00:00", "Z"),
        "reportingController": names.FIELD_MANAGER,
        "reportingInstance": names.FIELD_MANAGER,
        "action": reason,
        "reason": reason,
        "regarding": {
            "apiVersion": CUSTOM_API,
            "kind": body["kind"],
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        },
        "note": note[:1024],
        "type": "Warning" if warning else "Normal",
    }
    try:
        await api.create("events.k8s.io/v1", "events", told)
    except KubernetesError as error:
        log.warning("event not written: reason=%s error=%s", reason, error)
