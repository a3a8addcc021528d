"""Parses the custom resources: SlurmCluster and NodeSet."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from contract import names, policies
from contract.policies import ReactionPolicy
from slurm_operator import accounts
from slurm_operator.decide.cluster import ownership
from slurm_operator.state.resources import (
    Cluster,
    HangPolicy,
    KeptDrain,
    LongCheck,
    NodeCondition,
    NodeSet,
    Place,
    RemovalPolicy,
    Restart,
    UpdatePolicy,
    Window,
)

_A_MONDAY = datetime.date(2024, 1, 1)
_LAST_MOMENT = datetime.datetime.max.replace(microsecond=0, tzinfo=datetime.UTC)
_TEN_YEARS = 10 * 365 * 24 * 3600
"""A longer time could leave Python's calendar, which ends every pass; CRDs before edition 15 have no maximum."""
_Read = TypeVar("_Read", UpdatePolicy, ReactionPolicy, LongCheck, HangPolicy, NodeCondition)


def parse_cluster(body: Mapping[str, Any]) -> Cluster:
    """Parse a SlurmCluster; the CRD filled in the defaults."""
    spec = body["spec"]
    configuration = body.get("status", {}).get("configuration", {})
    return Cluster(
        name=body["metadata"]["name"],
        revision=spec["revision"],
        rest_url=spec["rest"]["url"],
        desired_config=spec["wantedConfig"],
        active_config=spec["activeConfig"],
        controller=spec["controller"],
        rest=spec["restDeployment"],
        login=spec["login"],
        accounting=spec.get("accounting", ""),
        dry_run_url=spec["rehearsal"]["url"],
        closed=frozenset(configuration.get("closed", ())),
        administrators=spec.get("administrators", {}),
        appointed=body.get("status", {}).get("administrators") or {},
        accounts=accounts.declared(spec),
        ledger=accounts.ledger(body.get("status", {})),
        login_sets=tuple(spec.get("loginSets", ())),
        requested_checks={
            key.removeprefix(names.CHECK_REQUEST_PREFIX): text
            for key, text in body["metadata"].get("annotations", {}).items()
            if key.startswith(names.CHECK_REQUEST_PREFIX)
        },
        long_checks=tuple(_long_check(item) for item in spec.get("longChecks", ())),
        namespace=body["metadata"].get("namespace", names.NAMESPACE),
        hangs=tuple(
            _read(HangPolicy, {**item, "afterSeconds": min(item["afterSeconds"], _TEN_YEARS)})
            for item in spec.get("hangs", ())
        ),
    )


def _long_check(item: Mapping[str, Any]) -> LongCheck:
    called = {"limitMinutes": item["timeLimitMinutes"], "comesFirst": item.get("beforeJobs", False)}
    read = {"nodeSets": tuple(item["nodeSets"]), "everySeconds": min(item.get("everySeconds", 0), _TEN_YEARS)}
    return _read(LongCheck, {**item, **called, **read})


def parse_node_set(body: Mapping[str, Any]) -> NodeSet:
    """Parse a NodeSet; of one that is being deleted no node is wanted."""
    metadata, spec = body["metadata"], body["spec"]
    annotations = metadata.get("annotations", {})
    deleting = "deletionTimestamp" in metadata
    guarded = names.FINALIZER in metadata.get("finalizers", [])
    removal = _removal_policy(spec.get("removal", {}))
    declared = annotations.get(names.ANNOTATION_REPLICAS, "")
    return NodeSet(
        name=metadata["name"],
        cluster=spec["cluster"],
        stateful_set=spec["statefulSet"],
        replicas=0 if deleting else spec.get("replicas"),
        finalizer_url=annotations.get(names.ANNOTATION_REST, "") if guarded else None,
        deleting=deleting,
        forced=annotations.get(names.ANNOTATION_FORCE) == "true" or removal.force,
        removal=removal,
        update=_update_policy(spec.get("update", {})),
        reactions=_reaction_policy(spec.get("reactions", {})),
        restarts=tuple(
            Restart(
                noted["node"],
                datetime.datetime.fromisoformat(noted["at"]),
                noted.get("replace", False),
                noted.get("uid", ""),
            )
            for noted in body.get("status", {}).get("restarts", [])
        ),
        updating=frozenset(body.get("status", {}).get("updating", [])),
        drains=tuple(
            KeptDrain(kept["node"], kept["reason"], kept["user"])
            for kept in body.get("status", {}).get("drainsOfOthers", [])
        ),
        approved=frozenset(map(str.strip, annotations.get(names.ANNOTATION_APPROVE, "").split(","))),
        declared=int(declared) if declared.isdecimal() and not deleting else None,
        scaled_by=tuple(ownership.writers(body, ("f:spec", "f:replicas"))),
        features=_features(spec["features"]) if "features" in spec else None,
        feature_labels=tuple(spec.get("featureLabels", ())),
        conditions=tuple(_read(NodeCondition, item) for item in spec.get("nodeConditions", ())),
        topology=tuple(_place(item) for item in spec["topology"]) if "topology" in spec else None,
        namespace=metadata.get("namespace", names.NAMESPACE),
    )


def _features(said: Iterable[str]) -> tuple[str, ...]:
    """Return features as Slurm has them: several of one with a comma, as older editions of the CRD take them."""
    return tuple(word for text in said for word in text.split(",") if word)


def _place(item: Mapping[str, Any]) -> Place:
    return Place(item["name"], item.get("unit", ""), tuple(item.get("labels", ())))


def _update_policy(spec: Mapping[str, Any]) -> UpdatePolicy:
    room, said = spec.get("maxUnavailable"), spec.get("window")
    spec = {**spec, "window": _window(said) if said else None}
    if isinstance(room, str):
        spec = {**spec, "maxUnavailable": 1, "percent": int(room.removesuffix("%"))}
    return _read(UpdatePolicy, spec)


def _window(said: Mapping[str, Any]) -> Window:
    """Parse a window; the CRD has seen that it is one."""
    start, duration = str(said["start"]), datetime.timedelta(seconds=said["durationSeconds"])
    if start.endswith("Z"):
        return Window(min(datetime.datetime.fromisoformat(start), _LAST_MOMENT - duration), duration, weekly=False)
    day, _, clock = start.partition(" ")
    at = datetime.datetime.combine(_A_MONDAY, datetime.time.fromisoformat(clock), datetime.UTC)
    return Window(at + datetime.timedelta(days=policies.WEEKDAYS.index(day)), duration)


def _reaction_policy(spec: Mapping[str, Any]) -> ReactionPolicy:
    policy = _read(ReactionPolicy, spec)
    return dataclasses.replace(policy, after_seconds=min(policy.after_seconds, _TEN_YEARS))


def _removal_policy(spec: Mapping[str, Any]) -> RemovalPolicy:
    forced = spec.get("jobs") == "force"
    return RemovalPolicy(0 if forced else spec.get("deadlineSeconds"), force=forced)


def _read(kind: type[_Read], spec: Mapping[str, Any]) -> _Read:
    """Read a part of a spec, whose keys are those of the fields, in camelCase; the CRD has the same defaults."""
    words = {field.name: field.name.split("_") for field in dataclasses.fields(kind)}
    keys = {name: first + "".join(word.title() for word in more) for name, (first, *more) in words.items()}
    return kind(**{name: spec[key] for name, key in keys.items() if key in spec})
