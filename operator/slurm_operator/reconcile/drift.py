"""Restores declared objects that drifted, in rounds of its own, so that a slow Slurm delays no repair.

A round looks at the objects first, and reads the ledger before it restores one. Pulumi writes the ledger before any
object, so a change by Pulumi never counts as drift. A later change fails the apply, which names the observed version.
"""

from __future__ import annotations

import base64
import binascii
import collections
import datetime
import gzip
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from contract import names
from contract.conditions import ConditionType, Reason
from slurm_operator import execute, metrics, observe
from slurm_operator.clients.informer import Informer, Watch, plural
from slurm_operator.clients.kubernetes import KubernetesApi, KubernetesError, Object
from slurm_operator.clients.lease import Lease
from slurm_operator.clients.watched_reads import Reads
from slurm_operator.decide.cluster.drift import restore, rounds
from slurm_operator.decide.cluster.requeue import Outcome
from slurm_operator.findings import Condition, Defect, Finding, of_defects
from slurm_operator.parse.pods import parse_pod
from slurm_operator.reconcile.defects import EXPECTED

log = logging.getLogger(__name__)

_FORMAT = 1


class DriftReconciler:
    """Restores the declared objects of one namespace.

    Attributes:
        condition: what to say about it in the SlurmCluster's status; None before the first round.
        problems: what could not be restored.
    """

    def __init__(
        self,
        api: KubernetesApi,
        lease: Lease,
        wake: Callable[[], None],
        tell: Callable[[], None],
        reads: Reads | None = None,
    ) -> None:
        """Restore by rounds.

        Args:
            api: the namespace.
            lease: has to be ours.
            wake: called when the next round should begin at once.
            tell: called when `condition` or `problems` have changed.
            reads: what answers for the API server where a round reads; the API server itself if it is left out.
        """
        self.condition: Condition | None = None
        self.problems: tuple[Finding, ...] = ()
        self._api = api
        self._reads = reads or api
        self._lease = lease
        self._executor = execute.Executor(api, lease)
        self._tell = tell
        self._informer = Informer(api, wake)
        self._ledger: rounds.Ledger | None = None
        self._ledger_versions: tuple[str, ...] = ()
        self._clean: dict[restore.Key, str] = {}
        self._restored: dict[restore.Key, collections.deque[datetime.datetime]] = {}
        self._failures: dict[restore.Key, rounds.Failure] = {}
        self._edited: dict[restore.Key, restore.Object] = {}
        """Objects as they were before their editor's fields were noted as Pulumi's, until they are restored."""

    async def close(self) -> None:
        """End the watches."""
        await self._informer.close()

    def has_drifted(self, kind: str, name: str, data: Mapping[str, str] | None) -> bool:
        """Return whether an object has other data than declared, or if the ledger is unknown."""
        if self._ledger is None:
            return True
        declared = self._ledger.objects.get((kind, name))
        return declared is not None and declared.get("data") != data

    async def run(self) -> Outcome:
        """Do one round and return how soon another should follow. What else it raises is told, since nothing is held.

        Raises:
            KubernetesError: the API server was away; the next round begins anew.
            NotLeading: the lease is not ours any more.
        """
        try:
            return await self._round()
        except EXPECTED:
            raise
        except Exception as error:  # Whatever it is: nothing is restored, and people are told.
            told = of_defects([Defect("what restores declared objects", error)])
            self._say(Condition(ConditionType.HEALING, "Unknown", told[0].reason, told[0].message), tuple(told))
            raise

    async def _round(self) -> Outcome:
        if not self._lease.held():
            metrics.HEALING_PAUSED.set(0)  # Another operator tells it now.
        self._lease.check()
        live = self._informer.snapshot(self._ledger.objects if self._ledger else ())
        before = self._ledger
        bodies = await observe.clusters(self._reads)
        await self._read_ledger(self._reads)
        if not bodies or "deletionTimestamp" in bodies[0]["metadata"]:
            self._say(None, ())  # Before Pulumi's last step, or after the first of its destroy.
            return Outcome.STEADY
        now = datetime.datetime.now(datetime.UTC)
        standing, paused = self._standing(bodies[0], now)
        if self._ledger is None or standing.status != "True":
            self._forget()  # After Pulumi has finished, every object is applied once, since Pulumi may have changed it.
            self._say(standing, ())
            metrics.HEALING_PAUSED.set((now - paused).total_seconds())
            return Outcome.STEADY
        metrics.HEALING_PAUSED.set(0)
        if self._ledger is not before:
            self._forget()
            return Outcome.PROGRESSING  # The observed objects are older than this ledger.
        plan = rounds.plan(self._ledger, live, self._clean, self._restored, self._failures, now)
        if plan.checks:
            seen = self._ledger
            await self._read_ledger(self._api)
            if self._ledger is not seen:
                self._forget()
                return Outcome.PROGRESSING  # The watch of the ledger is late.
        for check in plan.checks:
            await self._check(bodies[0], check, now)
        tried = {check.key for check in plan.checks}
        for key in [key for key in self._failures if key in live and key not in tried | plan.resting]:
            del self._failures[key]  # The object is as declared, or deleted for good.
        failed = (failure.problem for failure in self._failures.values() if failure.problem)
        self._say(standing, (*plan.problems, *failed))
        return Outcome.STEADY

    def _forget(self) -> None:
        self._clean.clear()
        self._failures.clear()
        self._edited.clear()

    def _standing(self, cluster: Object, now: datetime.datetime) -> tuple[Condition, datetime.datetime]:
        conditions = cluster.get("status", {}).get("conditions", [])
        told = [condition for condition in conditions if condition["type"] == ConditionType.HEALING]
        since = [condition["lastTransitionTime"] for condition in told if condition["status"] == "False"]
        paused = datetime.datetime.fromisoformat(since[0]) if since else now
        return rounds.standing(cluster["spec"]["revision"], self._ledger, paused, now), paused

    def _say(self, condition: Condition | None, problems: tuple[Finding, ...]) -> None:
        if (condition, problems) != (self.condition, self.problems):
            self.condition, self.problems = condition, problems
            self._tell()

    async def _read_ledger(self, reads: Reads) -> None:
        ledger = await reads.get("v1", "secrets", names.LEDGER)
        payloads = await reads.get("v1", "secrets", names.LEDGER_PAYLOADS)
        versions = tuple(secret["metadata"]["resourceVersion"] if secret else "" for secret in (ledger, payloads))
        if versions == self._ledger_versions:
            return
        self._ledger_versions = versions
        self._ledger = None if ledger is None else _ledger(ledger.get("data") or {}, (payloads or {}).get("data") or {})
        self._informer.follow(
            Watch(declared["apiVersion"], kind, name if kind == "Secret" else "")
            for (kind, name), declared in (self._ledger.objects if self._ledger else {}).items()
        )

    async def _check(self, cluster: Object, check: restore.Check, now: datetime.datetime) -> None:
        key = check.key
        work = self._restore(check)

        async def counted() -> str:
            done = await work
            if done:
                self._restored.setdefault(key, collections.deque(maxlen=rounds.FOUGHT_OVER)).append(now)
                metrics.HEALS.labels(*key, "edited" if check.before else "deleted").inc()
            return done

        failed = await self._executor.attempt(cluster, "Heal", counted())
        if failed and failed[0].reason == execute.CONFLICT:
            self._failures[key] = rounds.conflicted(check, self._failures.get(key), now)
            self._informer.look_again(*key)
        elif failed:
            self._failures[key] = rounds.refused(check, self._failures.get(key), failed[0], now)
        else:
            self._failures.pop(key, None)

    async def _restore(self, check: restore.Check) -> str:
        declared, before = check.declared, check.before
        api, kinds, name = declared["apiVersion"], plural(declared["kind"]), declared["metadata"]["name"]
        sized = restore.sized_by_operator(declared)
        if before is None and sized:
            labels = declared["spec"]["selector"]["matchLabels"].items()
            selector = ",".join(f"{key}={value}" for key, value in labels)
            pods = await self._api.list_as(parse_pod, "v1", "pods", selector)
            size = restore.size_of(name, (pod.name for pod in pods))
            # The operator creates the set with a size first. Pulumi's fields have none, and Kubernetes would fill in 1.
            made = {**declared, "spec": {**declared["spec"], "replicas": size}}
            self._lease.check()
            await self._api.apply(api, kinds, made)
        try:
            apart = before and await self._hand_over(declared, before)
            body = restore.body(restore.Check(declared, apart))
            self._lease.check()
            after = await self._api.apply(api, kinds, body, manager=names.FIELD_MANAGER)
            if sized and restore.gives_back(after):
                own = {"metadata": {"name": name}, "spec": {"replicas": after["spec"]["replicas"]}}
                after = await self._api.apply(api, kinds, {"apiVersion": api, "kind": declared["kind"], **own})
        except KubernetesError as error:
            if error.status != 422 or before is None or not await self._replaceable(declared):
                raise
            self._lease.check()
            orphan = declared["kind"] in ("StatefulSet", "Deployment")
            version = {"resourceVersion": before["metadata"]["resourceVersion"]}
            await self._api.delete(api, kinds, name, version, orphan=orphan)
            return f"deleted {declared['kind']} {name}, to make it anew: what was changed cannot be changed back"
        self._clean[check.key] = restore.fingerprint(after)
        self._informer.store(after)
        edited = self._edited.pop(check.key, before)  # An apply that failed has left an object without its editor.
        return restore.describe(before and edited, after)

    async def _hand_over(self, declared: restore.Object, before: restore.Object) -> restore.Object:
        """Note what others added as Pulumi's, so that the apply removes it; returns the object as it is then."""
        api, kinds, name = declared["apiVersion"], plural(declared["kind"]), declared["metadata"]["name"]
        if restore.is_unowned(before):
            # An empty apply makes the API server record an owner for the fields that have none.
            nothing = {"apiVersion": api, "kind": declared["kind"], "metadata": restore.identity(before)}
            self._lease.check()
            before = await self._api.apply(api, kinds, nothing)
        patch = restore.handing_over(before)
        if patch is None:
            return before
        self._lease.check()
        try:
            handed = await self._api.merge(api, kinds, name, patch)
        except KubernetesError as error:
            if error.status != httpx.codes.NOT_FOUND:
                raise
            raise KubernetesError(httpx.codes.CONFLICT, str(error)) from error  # Deleted meanwhile.
        self._edited.setdefault((declared["kind"], name), before)
        return handed

    async def _replaceable(self, declared: restore.Object) -> bool:
        if declared["kind"] == "PersistentVolumeClaim":
            return False
        return await self._api.would_be_created(declared["apiVersion"], plural(declared["kind"]), declared)


def _ledger(data: Mapping[str, str], payloads: Mapping[str, str]) -> rounds.Ledger | None:
    """Read the ledger as components/control/ledger.py writes it; None if that cannot be done."""
    try:
        revision = base64.b64decode(data[names.LEDGER_REVISION]).decode().strip()
        document: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(data[names.LEDGER_DATA])))
    except (KeyError, ValueError, OSError, EOFError, binascii.Error) as error:
        log.warning("ledger not readable: error=%s", type(error).__name__)
        return None
    if document.get("format") != _FORMAT:
        return None
    objects: dict[restore.Key, Object] = {}
    problems: list[Finding] = []
    for declared in document["objects"]:
        kind, name = declared["kind"], declared["metadata"]["name"]
        if kind == "Secret":
            keys = {key: f"{name}.{key}" for key in declared["data"]}
            if missing := sorted(key for key, where in keys.items() if where not in payloads):
                why = (
                    f"Secret {name} cannot be held: {', '.join(missing)} not in {names.LEDGER_PAYLOADS}; run pulumi up"
                )
                problems.append(Finding(Reason.PAYLOAD_MISSING, why))
                continue
            objects[kind, name] = {**declared, "data": {key: payloads[where] for key, where in keys.items()}}
        else:
            objects[kind, name] = declared
    return rounds.Ledger(revision, objects, tuple(problems))
