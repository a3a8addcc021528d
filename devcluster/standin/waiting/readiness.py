"""Decides when an object of a built-in kind is ready, and what it lacks, like the official provider 4.32."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Final

from devcluster.standin.decisions import kinds
from devcluster.standin.decisions.kinds import Kind, Manifest
from devcluster.standin.waiting import wait_for

_REVISION: Final = "deployment.kubernetes.io/revision"
_SETTLED_SECONDS: Final = 10.0


@dataclasses.dataclass(frozen=True, slots=True)
class Seen:
    """State of one object in the cluster.

    Attributes:
        live: the object itself.
        previous: the object before this update; None when it was just created.
        replica_sets: those that a Deployment owns.
        claims: the PersistentVolumeClaims that a Deployment's pods name.
        endpoints: of a Service; None when there are none.
        endpoints_unchanged_seconds: for how long they have been as they are.
        binding_mode: of a claim's StorageClass; empty when unknown.
    """

    live: Manifest
    previous: Manifest | None = None
    replica_sets: Sequence[Manifest] = ()
    claims: Sequence[Manifest] = ()
    endpoints: Manifest | None = None
    endpoints_unchanged_seconds: float = 0.0
    binding_mode: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """A decision to go on waiting or to end the wait.

    Attributes:
        ready: the wait is over.
        progress: one line about where it stands.
        lacking: what is missing, for the error when the time is up.
        failed: it will never become ready.
        good_enough_at_deadline: the wait ends well when the time is up.
        declared: the program itself said what to wait for.
    """

    ready: bool
    progress: str
    lacking: tuple[str, ...] = ()
    failed: bool = False
    good_enough_at_deadline: bool = False
    declared: bool = False


def _status(live: Manifest) -> dict[str, Any]:
    status = live.get("status")
    return status if isinstance(status, dict) else {}


def _condition(live: Manifest, name: str) -> dict[str, Any]:
    listed = _status(live).get("conditions") or []
    return next((condition for condition in listed if condition.get("type") == name), {})


def _observed(live: Manifest) -> bool:
    generation = int(live["metadata"].get("generation", 0))
    return int(_status(live).get("observedGeneration", -1)) >= generation


def stateful_set(seen: Seen) -> Verdict:
    """Judge a StatefulSet: ready when all replicas are, at the newest revision (OnDelete: others care for that)."""
    live, status = seen.live, _status(seen.live)
    wanted = int(live["spec"].get("replicas", 1))
    ready = int(status.get("readyReplicas", 0))
    if not _observed(live):
        return Verdict(False, "Waiting for the StatefulSet controller", ("the StatefulSet controller has not seen it",))
    generation = int(live["metadata"].get("generation", 1))
    on_delete = live["spec"].get("updateStrategy", {}).get("type") == "OnDelete"
    replicas_ready = wanted == int(status.get("replicas", 0)) == ready
    if generation > 1 and on_delete:
        revision_ready = True
    else:
        current, update = status.get("currentRevision", ""), status.get("updateRevision", "")
        revision_ready = current != "" and current == update
        replicas_ready = replicas_ready and wanted == int(status.get("currentReplicas", 0))
    lacking = []
    if not replicas_ready:
        lacking.append(f"{ready} out of {wanted} replicas succeeded readiness checks")
    if not revision_ready:
        lacking.append(
            f"StatefulSet controller failed to advance from revision {status.get('currentRevision', '')!r} "
            f"to revision {status.get('updateRevision', '')!r}"
        )
    progress = f"Waiting for StatefulSet ({ready}/{wanted} Pods ready)"
    return Verdict(not lacking, progress, tuple(lacking))


def deployment(seen: Seen) -> Verdict:
    """Judge a Deployment: ready when its newest ReplicaSet is available with all pods, and its claims are bound."""
    live = seen.live
    revision = (live["metadata"].get("annotations") or {}).get(_REVISION, "")
    newest = next(
        (
            candidate
            for candidate in seen.replica_sets
            if (candidate["metadata"].get("annotations") or {}).get(_REVISION) == revision
        ),
        None,
    )
    if not _observed(live) or not revision or newest is None:
        return Verdict(False, "Waiting for app ReplicaSet", ("the Deployment controller has not made a ReplicaSet",))
    wanted = int(newest["spec"].get("replicas", 1))
    ready = int(_status(newest).get("readyReplicas", 0))
    available, progressing = _condition(live, "Available"), _condition(live, "Progressing")
    rolled_out = progressing.get("status") == "True" and progressing.get("reason") == "NewReplicaSetAvailable"
    unbound = [claim for claim in seen.claims if _status(claim).get("phase") != "Bound"]
    lacking = [
        f"[{condition.get('reason')}] {condition.get('message')}"
        for condition in (progressing, available)
        if condition and condition.get("status") != "True"
    ]
    lacking += [
        f"PersistentVolumeClaim: [{kinds.name_of(claim)}] is not ready. "
        f"status.phase currently at: {_status(claim).get('phase')}"
        for claim in unbound
    ]
    if available.get("status") != "True":
        lacking.append("Minimum number of live Pods was not attained")
    elif not rolled_out or ready < wanted:
        lacking.append("Minimum number of Pods to consider the application live was not attained")
    progress = f"Waiting for app ReplicaSet to be available ({ready}/{wanted} Pods available)"
    return Verdict(not lacking, progress, tuple(lacking))


def job(seen: Seen) -> Verdict:
    """Judge a Job: ready when it is complete, failed when Kubernetes gave it up."""
    status, failure = _status(seen.live), _condition(seen.live, "Failed")
    counts = " | ".join(f"{key.capitalize()}: {status.get(key, 0)}" for key in ("active", "succeeded", "failed"))
    progress = f"Waiting for Job to succeed ({counts})"
    if failure.get("status") == "True":
        return Verdict(False, progress, (f"[{failure.get('reason')}] {failure.get('message')}",), failed=True)
    if _condition(seen.live, "Complete").get("status") == "True":
        return Verdict(True, progress)
    started = "startTime" in status
    return Verdict(False, progress, ("the Job has not succeeded yet" if started else "the Job has not started",))


def service(seen: Seen) -> Verdict:
    """Judge a Service: ready when it has its address, and none of the pods behind it waits to become ready."""
    spec = seen.live["spec"]
    balanced = spec.get("type") == "LoadBalancer"
    has_address = not balanced or bool(_status(seen.live).get("loadBalancer", {}).get("ingress"))
    no_address = () if has_address else (
        "Service was not allocated an IP address; does your cloud provider support this?",
    )  # fmt: skip
    if spec.get("type") == "ExternalName" or spec.get("clusterIP") == "None" or not spec.get("selector"):
        return Verdict(has_address, "Waiting for an IP address", no_address)
    subsets = (seen.endpoints or {}).get("subsets") or []
    pending = any(subset.get("notReadyAddresses") for subset in subsets)
    targets = any(subset.get("addresses") for subset in subsets)
    settled = seen.endpoints is not None and seen.endpoints_unchanged_seconds >= _SETTLED_SECONDS
    no_target = () if targets and not pending else (
        "Service does not target any Pods. Selected Pods may not be ready, or field '.spec.selector' may not match "
        "labels on any Pods",
    )  # fmt: skip
    progress = "Attempting to allocate IP address to Service" if targets else "Finding Pods to direct traffic to"
    return Verdict(
        ready=has_address and settled and not pending,
        progress=progress,
        lacking=(*no_target, *no_address),
        good_enough_at_deadline=has_address and not pending,
    )


def claim(seen: Seen) -> Verdict:
    """Judge a claim: ready when bound, or when its StorageClass waits for the first pod that uses it."""
    phase = _status(seen.live).get("phase")
    waits = seen.binding_mode == "WaitForFirstConsumer" and phase == "Pending"
    lacking = f"PersistentVolumeClaim is {phase or 'not seen by its controller'}"
    return Verdict(phase == "Bound" or waits, f"Waiting for the claim to be bound ({phase})", (lacking,))


def volume(seen: Seen) -> Verdict:
    """Judge a PersistentVolume: ready when available or bound."""
    phase = _status(seen.live).get("phase")
    return Verdict(phase in ("Available", "Bound"), f"PersistentVolume is {phase}", (f"PersistentVolume is {phase}",))


def token_secret(seen: Seen) -> Verdict:
    """Judge a Secret: one of a service account is ready with its token, others always are."""
    done = seen.live.get("type") != "kubernetes.io/service-account-token" or bool(seen.live.get("data"))
    return Verdict(done, "Waiting for the token", ("no token was made: does the ServiceAccount exist?",))


def declared(expression: wait_for.Expression, live: Manifest) -> Verdict:
    """Judge any object: ready when the condition of its annotation `pulumi.com/waitFor` holds."""
    holds, actual = expression.holds(live)
    lacking = () if holds else (f"{expression.written} ({actual})",)
    return Verdict(holds, f"Waiting for {'; '.join(lacking)}", lacking, declared=True)


Decision = Callable[[Seen], Verdict]

ON_WRITE: Final[dict[Kind, Decision]] = {
    Kind("apps", "v1", "StatefulSet"): stateful_set,
    Kind("apps", "v1", "Deployment"): deployment,
    Kind("batch", "v1", "Job"): job,
    Kind("", "v1", "Service"): service,
    Kind("", "v1", "PersistentVolumeClaim"): claim,
    Kind("", "v1", "PersistentVolume"): volume,
    Kind("", "v1", "Secret"): token_secret,
}
"""Conditions to wait for after a create or an update."""

ON_READ: Final = frozenset({"StatefulSet", "Deployment", "Job", "Service"})
"""Kinds whose readiness a refresh looks at, once."""
