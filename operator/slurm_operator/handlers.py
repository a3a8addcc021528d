"""kopf's handlers: they wake the passes when a resource changes. A pass decides from the state that it observes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import kopf

from contract import names, paths, pod_variables
from slurm_operator import health, metrics
from slurm_operator.clients import access
from slurm_operator.clients.kubernetes import KubernetesApi, KubernetesError
from slurm_operator.clients.lease import LOOK_SECONDS, RENEW_SECONDS, Lease, NotLeading
from slurm_operator.clients.watched_reads import WatchedReads
from slurm_operator.decide.cluster.requeue import Outcome, requeue_after
from slurm_operator.reconcile.cluster import Reconciler
from slurm_operator.reconcile.drift import DriftReconciler

log = logging.getLogger(__name__)

PASS_DEADLINE_SECONDS = 60.0
_LEAST_PAUSE_SECONDS = 0.3


@kopf.on.login()
def login(**_: Any) -> kopf.ConnectionInfo:
    """Show kopf the way to the API server that our own client takes."""
    return access.find()


@kopf.on.startup()
async def start(settings: kopf.OperatorSettings, memo: kopf.Memo, **_: Any) -> None:
    """Begin to hold the lease and to do passes."""
    # A namespaced Role grants neither CRDs nor namespaces nor peering objects; the Lease does what peering would.
    settings.scanning.disabled = True
    settings.peering.standalone = True
    settings.posting.enabled = False
    settings.watching.server_timeout = 300
    settings.watching.connect_timeout = 10
    pod = os.environ.get(pod_variables.POD_NAME, socket.gethostname())
    identity = f"{pod}-{uuid.uuid4().hex[:8]}"
    memo.api = KubernetesApi(access.find, os.environ[pod_variables.POD_NAMESPACE], pod)
    memo.lease = Lease(memo.api, identity)
    metrics.LEADER.set_function(memo.lease.held)
    key_file = Path(os.environ.get("JWT_KEY_FILE", paths.JWT_KEY_FILE))
    memo.wake, memo.wake_drift = asyncio.Event(), asyncio.Event()
    memo.reads = WatchedReads(memo.api)
    memo.drift_reconciler = DriftReconciler(memo.api, memo.lease, memo.wake_drift.set, memo.wake.set, memo.reads)
    memo.reconciler = Reconciler(
        *(memo.api, memo.lease, key_file, memo.drift_reconciler),
        wake=memo.wake.set,
        image=os.environ.get(pod_variables.OPERATOR_IMAGE, ""),
        reads=memo.reads,
        dry_run_url=os.environ.get("CONFIG_DRY_RUN_URL", names.CONFIG_DRY_RUN_URL),
    )
    progress = {"lease": health.Progress(), "slurm": health.Progress(), "healing": health.Progress()}
    loop = health.Progress()
    memo.stop_health = health.serve(loop, progress, int(os.environ.get("HEALTH_PORT", names.OPERATOR_HEALTH_PORT)))
    memo.tasks = [
        asyncio.create_task(_keep_turning(loop), name="loop"),
        asyncio.create_task(_keep_lease(memo.lease, progress["lease"], memo.reads.begin_anew), name="lease"),
        asyncio.create_task(_keep_passing("slurm", memo.reconciler.run, memo.wake, progress["slurm"])),
        asyncio.create_task(_keep_passing("healing", memo.drift_reconciler.run, memo.wake_drift, progress["healing"])),
    ]


@kopf.on.cleanup()
async def stop(memo: kopf.Memo, **_: Any) -> None:
    """End the passes, then let another operator begin."""
    for task in memo.tasks:
        task.cancel()
    await asyncio.gather(*memo.tasks, return_exceptions=True)
    with contextlib.suppress(KubernetesError):
        await memo.lease.release()
    await memo.drift_reconciler.close()
    await memo.reconciler.close()
    await memo.reads.close()
    await memo.api.close()
    memo.stop_health()


# With plain event handlers kopf adds no finalizer. A NodeSet's only finalizer is the one that waits for its jobs.
@kopf.on.event(names.API_GROUP, names.CRD_VERSION, names.SLURM_CLUSTERS)
@kopf.on.event(names.API_GROUP, names.CRD_VERSION, names.NODE_SETS)
async def changed(memo: kopf.Memo, **_: Any) -> None:
    """Wake the next passes at once."""
    memo.wake.set()
    memo.wake_drift.set()


async def _keep_turning(loop: health.Progress) -> None:
    while True:
        loop.made()
        await asyncio.sleep(1)  # Each turn shows that the event loop is not blocked.


async def _keep_lease(lease: Lease, progress: health.Progress, taken: Callable[[], None]) -> None:
    trouble = ""
    while True:
        before, said = lease.held(), ""
        try:
            await lease.renew()
            progress.made()
        except KubernetesError as error:
            said = str(error)
            if said != trouble:
                log.warning("lease not renewed: error=%s", error)
            progress.met(error)
        except Exception:  # Whatever it is: without this task nothing would ever be done again.
            log.exception("lease not renewed")
        trouble = said
        if lease.held() != before:
            log.info("lease %s", "taken" if lease.held() else "lost")
            taken()  # Also after a loss: nobody reads while another operator acts.
        await asyncio.sleep(RENEW_SECONDS if lease.held() else LOOK_SECONDS)  # A lease lives by time alone.


async def _keep_passing(
    subject: str, run: Callable[[], Awaitable[Outcome]], wake: asyncio.Event, progress: health.Progress
) -> None:
    trouble, blind_passes = "", 0
    while True:
        wake.clear()
        started = time.monotonic()
        result, outcome, said = Outcome.PROGRESSING, "done", ""
        try:
            async with asyncio.timeout(PASS_DEADLINE_SECONDS):
                result = await run()
            progress.made()
        except NotLeading:
            outcome = "not_leading"
            progress.made()
        except KubernetesError as error:
            # A conflict is no fault: something changed after this pass saw it, and the next pass looks again.
            outcome, said = ("conflict", "") if error.status == 409 else ("kubernetes_error", str(error))
            progress.met(error)
        except TimeoutError:
            outcome, said = "deadline", f"no end within {PASS_DEADLINE_SECONDS:.0f} s"
        except Exception as error:  # Whatever it is: a defect must not end the passes.
            # It counts as no progress, so that /readyz shows it.
            outcome, said = "defect", f"{type(error).__name__}: {error}"
            if said != trouble:
                log.exception("pass failed: subject=%s", subject)
        metrics.PASSES.labels(subject, outcome).observe(time.monotonic() - started)
        if said not in ("", trouble) and outcome != "defect":
            log.warning("pass ended: subject=%s outcome=%s error=%s", subject, outcome, said)
        trouble = said
        blind_passes = blind_passes + 1 if result is Outcome.BLIND else 0
        await asyncio.sleep(_LEAST_PAUSE_SECONDS)  # One pass takes all changes that come together.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(wake.wait(), requeue_after(result, blind_passes))
