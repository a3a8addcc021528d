"""Promises about the operator's own end, length and company: against a real API server, a pass at a time."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from slurm_operator.clients.kubernetes import KubernetesApi, KubernetesError
from slurm_operator.clients.lease import Lease
from slurm_operator.clients.slurm import slurmrestd
from slurm_operator.clients.watched_reads import WatchedReads
from slurm_operator.reconcile.cluster import Reconciler
from slurm_operator.reconcile.drift import DriftReconciler

from devcluster.apiserver.control_plane import free_ports
from tests.operator.fakes import fake_slurmrestd
from tests.operator.fakes.fake_workloads import FakeWorkloads
from tests.operator.worlds.operator_rights import kubeconfig_of_role, let_read_nodes
from tests.operator.worlds.template_changes import change_template, images
from tests.operator.worlds.world import KEY, Admin, World, access_by, operator, until

pytestmark = pytest.mark.apiserver

PASSES = 25


class KilledError(BaseException):
    """The process ends here: nothing that catches errors sees it."""


class Held(Lease):
    """A lease that is ours."""

    def held(self) -> bool:
        return True


class Mortal(KubernetesApi):
    """Dies after its first change, before anybody hears of the answer."""

    async def _request(self, method: str, *rest: Any, **more: Any) -> Any:
        answer = await super()._request(method, *rest, **more)
        if method != "GET":
            raise KilledError
        return answer


class Counted(KubernetesApi):
    """Notes each request that is no watch."""

    def __init__(self, *access: Any) -> None:
        super().__init__(*access)
        self.asked: list[str] = []

    async def _request(self, method: str, path: str, *rest: Any, **more: Any) -> Any:
        self.asked.append(f"{method} {path}")
        return await super()._request(method, path, *rest, **more)


class OnePass:
    """Operators that live for one pass, each a new one without memory."""

    def __init__(self, world: World, kubeconfig: Path, folder: Path, kind: type[KubernetesApi]) -> None:
        self._access, self._namespace, self._kind = access_by(kubeconfig), world.namespace, kind
        self._key = folder / "jwt.key"
        self._key.write_bytes(KEY)

    def reconciler(self) -> tuple[Reconciler, DriftReconciler, KubernetesApi]:
        api = self._kind(lambda: self._access, self._namespace)
        lease = Held(api, "one")
        drift_reconciler = DriftReconciler(api, lease, lambda: None, lambda: None)
        return Reconciler(api, lease, self._key, drift_reconciler), drift_reconciler, api

    async def live(self) -> bool:
        """One life; whether it ended by being killed."""
        reconciler, drift_reconciler, api = self.reconciler()
        try:
            await reconciler.run()
        except KilledError:
            return True
        finally:
            await reconciler.close()
            await drift_reconciler.close()
            await api.close()
        return False


@pytest.fixture
def lives(
    cluster: World, kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Callable[[], Any], str], int]]:
    """Lets operators live and die until something is so; counts those that were killed."""
    ask = slurmrestd.SlurmRest._call

    async def change_and_die(self: slurmrestd.SlurmRest, call: str, method: str, *rest: Any, **more: Any) -> Any:
        answer = await ask(self, call, method, *rest, **more)
        if method != "GET" or call == "reconfigure":
            raise KilledError
        return answer

    monkeypatch.setattr(slurmrestd.SlurmRest, "_call", change_and_die)
    mortal = OnePass(cluster, kubeconfig, tmp_path, Mortal)

    def live_until(condition: Callable[[], Any], what: str) -> int:
        killed = 0

        def another() -> Any:
            nonlocal killed
            killed += asyncio.run(mortal.live())
            return condition()

        until(another, what)
        return killed

    yield live_until


def test_an_operator_killed_after_every_single_change_still_brings_all_to_its_end(
    cluster: World, lives: Callable[[Callable[[], Any], str], int]
) -> None:
    world = cluster
    world.declare()
    lives(lambda: world.condition("Available")["status"] == "True", "the cluster is available")
    job = world.slurm.run_job("cpu-1")
    change_template(world, "newer")
    killed = lives(lambda: images(world) == ["newer", "none"], "the idle node is updated")
    assert killed >= 2, "it was killed between drain and restart"
    world.scale(1)
    lives(lambda: "DRAIN" not in world.slurm.nodes["cpu-0"]["state"], "the new node takes jobs")
    world.slurm.end_job(job)
    lives(lambda: world.size() == 1 and set(world.slurm.nodes) == {"cpu-0"}, "the set shrinks, and its record goes")
    lives(lambda: world.condition("Progressing")["status"] == "False", "nothing is under way any more")
    world.delete("nodesets", "cpu")
    lives(lambda: "cpu" not in world.names("nodesets") + world.names("statefulsets"), "the node set goes")
    assert (world.slurm.killed, world.slurm.nodes) == ([], {})


def test_a_pass_in_which_nothing_changed_asks_kubernetes_for_nothing(
    cluster: World, kubeconfig: Path, tmp_path: Path
) -> None:
    let_read_nodes(cluster)  # Who may not asks again every ten seconds.
    cluster.declare()
    key = tmp_path / "jwt.key"
    key.write_bytes(KEY)
    access = access_by(kubeconfig)

    async def passes() -> tuple[list[str], int]:
        api = Counted(lambda: access, cluster.namespace)
        reads = WatchedReads(api)
        lease = Held(api, "one")
        healing = DriftReconciler(api, lease, lambda: None, lambda: None, reads)
        reconciler = Reconciler(api, lease, key, healing, reads=reads)
        try:
            async with asyncio.timeout(150):  # On a busy machine a pass may take many seconds.
                while api.asked or cluster.condition("Available").get("status") != "True":
                    api.asked.clear()
                    await healing.run()
                    await reconciler.run()
                    await asyncio.sleep(0.05)  # Watches tell of themselves to nobody but the passes.
            before = len(cluster.slurm.calls)
            for _ in range(3):
                await healing.run()
                await reconciler.run()
            quiet, looked = api.asked.copy(), len(cluster.slurm.calls) - before
            cluster.scale(3)
            async with asyncio.timeout(120):
                while cluster.size() != 3:
                    await reconciler.run()
                    await asyncio.sleep(0.05)  # Watches tell of themselves to nobody but the passes.
            return quiet, looked
        finally:
            for each in (reconciler, healing, reads, api):
                await each.close()

    quiet, looked = asyncio.run(passes())
    assert quiet == []
    assert looked >= 3, "the passes looked at Slurm"


def test_a_cluster_whose_slurm_hangs_holds_up_no_other(
    cluster: World, admin: Admin, tmp_path: Path, kubeconfig: Path, port: int
) -> None:
    other_folder = tmp_path / "other"
    other_folder.mkdir()
    with fake_slurmrestd.running(KEY) as other_slurm:
        other = World(admin, f"{cluster.namespace}-other", other_slurm.slurm, other_slurm.url, cluster.dry_run_url)
        others_rights = kubeconfig_of_role(other, other_folder)
        cluster.declare()
        other.declare()
        with (
            FakeWorkloads(other),
            operator(cluster, tmp_path, kubeconfig, port),
            operator(other, other_folder, others_rights, free_ports(1)[0]),
        ):
            cluster.wait("Available", "True")
            other.wait("Available", "True")
            cluster.slurm.fail("hang")
            cluster.wait("Available", "Unknown", "RestUnreachable")
            other.scale(0)
            until(lambda: other.size() == 0 and not other.slurm.nodes, "the other one shrinks meanwhile")
            assert cluster.condition("Available")["status"] == "Unknown"
            cluster.slurm.fail("")
            cluster.wait("Available", "True")


def test_memory_stays_flat_over_many_passes(cluster: World, kubeconfig: Path, tmp_path: Path) -> None:
    cluster.declare()

    async def measure() -> list[int]:
        reconciler, drift_reconciler, api = OnePass(cluster, kubeconfig, tmp_path, KubernetesApi).reconciler()
        counts = []
        try:
            for _ in range(3):
                for turn in range(PASSES):
                    cluster.slurm.fail("garbage" if turn == 5 else "")
                    # A conflict ends a pass; the next one goes on.
                    with contextlib.suppress(KubernetesError):
                        await reconciler.run()
                gc.collect()
                counts.append(len(gc.get_objects()))
        finally:
            await reconciler.close()
            await drift_reconciler.close()
            await api.close()
        return counts

    counts = asyncio.run(measure())
    # Other threads' connections come and go; what is kept of every pass shows between any two counts, and is more.
    assert min(later - sooner for sooner, later in itertools.pairwise(counts)) < PASSES * 8, counts
