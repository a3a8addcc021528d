"""One acting operator per namespace: a Lease that is taken, renewed, and trusted only while renewal is fresh.

Another's lease has run out when *we* have seen it unchanged for long enough, on our own monotonic clock. So the clocks
of different Kubernetes nodes need not agree. We stop acting well before another may begin.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from typing import Any

from contract import names
from slurm_operator.clients.kubernetes import KubernetesApi, KubernetesError

DURATION_SECONDS = 12.0
RENEW_SECONDS = 2.0
LOOK_SECONDS = 1.0
"""Pause between looks at another's lease. If its holder was killed, this process has the lease within 15 s."""
TRUST_SECONDS = 6.0
"""Without renewal for so long, this process begins no change. Calls that it began end within their deadline (5 s)."""

_API = "coordination.k8s.io/v1"


class NotLeading(Exception):
    """This process may not act now: another does, or our lease could not be renewed in time."""


class Lease:
    """The namespace's lease as this process sees it."""

    def __init__(self, api: KubernetesApi, identity: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._identity = identity
        self._clock = clock
        self._seen: dict[str, Any] = {}
        self._seen_at = 0.0
        self._renewed_at: float | None = None

    def check(self) -> None:
        """Raise NotLeading unless the lease is ours and fresh; callers check before every change."""
        if not self.held():
            raise NotLeading

    def held(self) -> bool:
        """Return whether this process may act now."""
        return self._renewed_at is not None and self._clock() - self._renewed_at <= TRUST_SECONDS

    async def renew(self) -> None:
        """Take or renew the lease if it is free, ours or run out; a conflict means that another was faster.

        Raises:
            KubernetesError: the API server is away; the lease is then trusted no longer than it was.
        """
        asked_at = self._clock()
        lease = await self._api.get(_API, "leases", names.LEASE)
        try:
            if lease is None:
                await self._api.create(_API, "leases", self._body({"name": names.LEASE}, transitions=0))
                self._renewed_at = asked_at
            elif self._may_take(lease.get("spec", {})):
                spec = lease.get("spec", {})
                same = spec.get("holderIdentity") == self._identity
                transitions = int(spec.get("leaseTransitions") or 0) + (not same)
                await self._api.replace(_API, "leases", self._body(lease["metadata"], transitions=transitions))
                self._renewed_at = asked_at
            else:
                self._renewed_at = None
        except KubernetesError as error:
            if error.status != 409:
                raise
            self._renewed_at = None

    async def release(self) -> None:
        """Let another begin at once, and leave nothing behind, if the lease is ours."""
        held, self._renewed_at = self.held(), None
        lease = await self._api.get(_API, "leases", names.LEASE) if held else None
        if lease is not None and lease.get("spec", {}).get("holderIdentity") == self._identity:
            await self._api.delete(
                _API, "leases", names.LEASE, {"resourceVersion": lease["metadata"]["resourceVersion"]}
            )

    def _may_take(self, spec: dict[str, Any]) -> bool:
        if spec != self._seen:
            self._seen, self._seen_at = spec, self._clock()
        holder = spec.get("holderIdentity") or ""
        duration = float(spec.get("leaseDurationSeconds") or DURATION_SECONDS)
        return holder in ("", self._identity) or self._clock() - self._seen_at > duration

    def _body(self, metadata: dict[str, Any], *, transitions: int) -> dict[str, Any]:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        return {
            "apiVersion": _API,
            "kind": "Lease",
            "metadata": {key: metadata[key] for key in ("name", "resourceVersion", "labels") if key in metadata},
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": int(DURATION_SECONDS),
                "renewTime": now,
                "acquireTime": now,
                "leaseTransitions": transitions,
            },
        }
