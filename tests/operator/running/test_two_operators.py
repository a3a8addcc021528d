"""Promises of two operators in one namespace, against a real API server: never do both act."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import os
import shutil
import signal
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from slurm_operator.clients import kubernetes, lease
from slurm_operator.clients.kubernetes import KubernetesApi, KubernetesError
from slurm_operator.clients.lease import Lease, NotLeading
from slurm_operator.clients.slurm import slurmrestd, slurmrestd_connection
from slurm_operator.reconcile.cluster import Reconciler
from slurm_operator.reconcile.drift import DriftReconciler

from devcluster.apiserver.control_plane import free_ports
from tests.operator.fakes.cuttable_proxy import CuttableProxy
from tests.operator.worlds.world import KEY, World, access_by, metrics, passes, until
from tests.operator.worlds.world import operator as running

pytestmark = pytest.mark.apiserver
operator = functools.partial(running, has_short_pauses=False)
"""With users' pauses, on which it depends who acts when."""


def acts(port: int) -> bool:
    """Return whether an operator may act at this moment."""
    return "pulumi_slurm_lease_held 1.0" in metrics(port)


def acts_if_it_answers(port: int) -> bool:
    """The same of one that may just be starting."""
    with contextlib.suppress(httpx.HTTPError):
        return acts(port)
    return False


def test_what_is_under_way_ends_before_another_may_begin() -> None:
    longest = max(kubernetes.DEADLINE_SECONDS, slurmrestd_connection.DEADLINE_SECONDS)
    assert lease.TRUST_SECONDS + longest < lease.DURATION_SECONDS


def test_an_operator_that_is_killed_is_followed_within_15_seconds(
    cluster: World, tmp_path: Path, kubeconfig: Path, port: int
) -> None:
    # Seen last after one look, and found to have run out by another one; the rest is for calls.
    assert lease.DURATION_SECONDS + 2 * lease.LOOK_SECONDS < 15
    cluster.declare()
    others_port = free_ports(1)[0]
    with operator(cluster, tmp_path, kubeconfig, port, "one") as first:
        cluster.wait("Available", "True")
        with operator(cluster, tmp_path, kubeconfig, others_port, "two"):
            passes(cluster, 3)
            until(lambda: "serving namespace" in (tmp_path / "two.log").read_text(), "the second has begun")
            first.kill()
            first.join()
            until(lambda: acts_if_it_answers(others_port), "the second acts, on a busy machine some seconds later")
            cluster.scale(3)
            until(lambda: cluster.size() == 3, "it does what is asked for")


def test_of_two_operators_one_acts_and_the_other_takes_over(
    cluster: World, tmp_path: Path, kubeconfig: Path, port: int
) -> None:
    cluster.declare()
    with operator(cluster, tmp_path, kubeconfig, port, "one") as first:
        cluster.wait("Available", "True")
        holder = cluster.get("leases", "slurm-operator")["spec"]["holderIdentity"]
        with operator(cluster, tmp_path, kubeconfig, free_ports(1)[0], "two") as second:
            passes(cluster, 3)
            assert "pulumi_slurm_allocated_nodes{" in metrics(port)
            assert first.pid
            os.kill(first.pid, signal.SIGSTOP)
            cluster.scale(3)
            until(lambda: cluster.size() == 3, "the second acts after the first's lease has run out")
            taken = cluster.get("leases", "slurm-operator")["spec"]["holderIdentity"]
            assert (holder.startswith("slurm-operator-one"), taken.startswith("slurm-operator-two")) == (True, True)
            os.kill(first.pid, signal.SIGCONT)
            cluster.scale(1)
            until(lambda: cluster.size() == 1, "still one acts")
            until(lambda: "pulumi_slurm_allocated_nodes{" not in metrics(port), "no autoscaler reads an old number")
            assert cluster.get("leases", "slurm-operator")["spec"]["holderIdentity"] == taken
            second.terminate()
            second.join(60)
            assert second.exitcode == 0
        cluster.scale(2)
        until(lambda: cluster.size() == 2, "a released lease is taken")
        last = ("SetReplicas", "set StatefulSet cpu from 1 to 2 replicas")
        until(lambda: last in cluster.events(), "it is told before the first one ends, too")
    written = cluster.admin.call("GET", cluster.path("events"))["items"]
    by = {item["note"]: item["reportingInstance"] for item in written if item["reason"] == "SetReplicas"}
    assert by["set StatefulSet cpu from 2 to 3 replicas"] == "slurm-operator-two", "Events say which replica acted"
    assert by["set StatefulSet cpu from 1 to 2 replicas"] == "slurm-operator-one"
    drains = [event for event in cluster.events() if event[0] == "Drain"]
    assert len(drains) == len(set(drains)), "no decision was carried out twice"


def test_one_that_is_cut_off_from_the_api_server_has_stopped_before_another_begins(
    cluster: World, tmp_path: Path, kubeconfig: Path, port: int
) -> None:
    cluster.declare()
    others_port, others_folder = free_ports(1)[0], tmp_path / "two"
    others_folder.mkdir()
    direct = Path(shutil.copy(kubeconfig, others_folder))
    with CuttableProxy(kubeconfig) as proxy, operator(cluster, tmp_path, kubeconfig, port, "one") as first:
        cluster.wait("Available", "True")
        with operator(cluster, others_folder, direct, others_port, "two"):
            passes(cluster, 3)
            assert acts(port)
            proxy.cut()
            cluster.scale(1)
            # Slurm still answers it: nothing but its own clock keeps it from draining.
            until(lambda: acts(others_port), "the other takes over")
            assert not acts(port), "both act"
            until(lambda: cluster.size() == 1, "the other does what is asked for")
            proxy.mend()
            until(lambda: "lease not renewed" in (tmp_path / "one.log").read_text(), "the first has noticed")
            passes(cluster, 3)
            assert (acts(port), acts(others_port), first.exitcode) == (False, True, None)
    drains = [event for event in cluster.events() if event[0] == "Drain"]
    assert len(drains) == 1, "the decision was carried out once"


class Fading(Lease):
    """A lease that is ours for some requests more, as when renewal fails while answers come slowly."""

    def __init__(self, api: KubernetesApi, requests: int) -> None:
        super().__init__(api, "one")
        self.left = requests

    def held(self) -> bool:
        return self.left > 0


class Watched(KubernetesApi):
    """Counts requests, and notes each change that is begun without the lease. An Event only tells of what was done."""

    lease: Fading
    late: list[str]

    async def _request(self, method: str, path: str, *rest: Any, **more: Any) -> Any:
        if method != "GET" and not path.endswith("/events") and not self.lease.held():
            self.late.append(f"{method} {path}")
        self.lease.left -= 1
        return await super()._request(method, path, *rest, **more)


def test_a_pass_whose_lease_runs_out_at_any_request_begins_no_other_change(
    cluster: World, kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = cluster
    world.declare()
    key = tmp_path / "jwt.key"
    key.write_bytes(KEY)
    late: list[str] = []
    found = access_by(kubeconfig)
    now = Fading(cast(KubernetesApi, None), 0)
    ask = slurmrestd.SlurmRest._call

    async def asked(self: slurmrestd.SlurmRest, call: str, method: str, path: str, *rest: Any, **more: Any) -> Any:
        if (method != "GET" or call == "reconfigure") and not now.held():
            late.append(f"{method} {path}")
        now.left -= 1
        return await ask(self, call, method, path, *rest, **more)

    monkeypatch.setattr(slurmrestd.SlurmRest, "_call", asked)

    async def live(requests: int) -> None:
        nonlocal now
        api = Watched(lambda: found, world.namespace)
        now = api.lease = Fading(api, requests)
        api.late = late
        drift_reconciler = DriftReconciler(api, now, lambda: None, lambda: None)
        reconciler = Reconciler(api, now, key, drift_reconciler)
        try:
            await reconciler.run()
        except NotLeading:
            assert not now.held()
        except KubernetesError as error:
            assert error.status == 409, "an object was no longer as it was seen"
        finally:
            await reconciler.close()
            await drift_reconciler.close()
            await api.close()

    turns = itertools.cycle(range(1, 30))

    def another(done: bool) -> bool:
        asyncio.run(live(next(turns)))
        assert late == [], "a change was begun without the lease"
        return done

    until(lambda: another(world.condition("Available")["status"] == "True"), "the cluster is available")
    world.scale(1)
    until(lambda: another(world.size() == 1 and set(world.slurm.nodes) == {"cpu-0"}), "the set shrinks")
