"""Facts behind the operator's rules about Slurm's node records: how a real slurmctld treats a record."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from slurm_operator.clients.slurm import slurmrestd
from slurm_operator.decide.node_sets import window
from slurm_operator.state.slurm import Facts, Reservation, SlurmNode

from bench.worlds.real_slurm import RealSlurm
from tests.image.pods import CONTROLLER, REVISION, SECOND, WORKER
from tests.image.small_cluster import ALICE, NewCluster, SmallCluster

SCONTROL = "/opt/slurm/bin/scontrol"
SECONDS = 90


@pytest.fixture(scope="module")
def cluster(new_cluster: NewCluster) -> Iterator[SmallCluster]:
    with new_cluster("busybox") as started:
        started.start_second_worker()
        yield started


def slurm(cluster: SmallCluster, command: str) -> str:
    """A command beside slurmctld, as an administrator gives it."""
    done = cluster.pod(f"PATH=$PATH:/opt/slurm/bin; {command}", name=CONTROLLER)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def record(cluster: SmallCluster) -> dict[str, str]:
    """State, size and reason of the second node."""
    shown = slurm(cluster, f"scontrol -o show node {SECOND} || true")
    return dict(re.findall(r"(State|RealMemory|Reason)=(.*?)(?= \w+=| \[|$)", shown))


def writer(cluster: SmallCluster) -> str:
    """Return who gave the second node's reason."""
    shown = slurm(cluster, f"scontrol -o show node {SECOND}")
    return "".join(re.findall(r"Reason=.* \[([^\s@]+)@", shown))


def restarted(cluster: SmallCluster, memory_mib: int = 1024) -> None:
    """Another pod under the same name, whose slurmd runs and is heard of."""
    cluster.start_worker(SECOND, REVISION, memory_mib=memory_mib)
    cluster.wait("it is ready", lambda: cluster.state(SECOND) == "ready", SECONDS)
    cluster.wait("it is heard of", lambda: "DOWN" not in record(cluster)["State"], SECONDS)


def reconfigured(cluster: SmallCluster) -> None:
    """Has slurmctld read its files anew, and waits until it has and answers again."""

    def starts() -> int:
        return cluster.log(CONTROLLER).count("Running as primary controller")

    before = starts()
    slurm(cluster, "scontrol reconfigure")
    cluster.wait("slurmctld starts itself anew", lambda: starts() > before, SECONDS)
    ping = f"{SCONTROL} ping | grep -q UP"
    cluster.wait("it answers", lambda: cluster.pod(ping, name=CONTROLLER).returncode == 0, SECONDS)


def waiting(cluster: SmallCluster) -> str:
    """A job that asks for the second node, which is drained."""
    return cluster.jail(f"sbatch --parsable -w {SECOND} -o /dev/null --wrap true", user=ALICE).stdout.strip()


def test_what_somebody_said_of_a_node_outlives_its_pod_and_slurmctlds_restart(cluster: SmallCluster) -> None:
    show = f"scontrol -o show node {SECOND}"
    features = ",".join([*re.findall(r" AvailableFeatures=(\S+)", slurm(cluster, show)), "big"])
    given = f"comment=rack-7 availablefeatures={features} activefeatures={features}"
    slurm(cluster, f"scontrol update nodename={SECOND} {given}")
    slurm(cluster, f"scontrol create reservation=later starttime=now+2days duration=60 user=root nodes={SECOND}")
    for state, reason in (("drain", "bad-fan"), ("fail", "rma-123")):
        slurm(cluster, f"scontrol update nodename={SECOND} state={state} reason={reason}")
        cluster.end(SECOND)
        reconfigured(cluster)
        restarted(cluster)
        kept = record(cluster)
        assert state.upper() in kept["State"].split("+"), kept
        assert kept["Reason"] == reason
        shown = slurm(cluster, show)
        assert f" ActiveFeatures={features} " in shown
        assert " Comment=rack-7" in shown
        assert f" Nodes={SECOND} " in slurm(cluster, "scontrol -o show reservation later")
        slurm(cluster, f"scontrol update nodename={SECOND} state=resume")
    slurm(cluster, "scontrol delete reservation=later")


def test_what_a_node_says_of_itself_is_roots_word_to_slurm(cluster: SmallCluster) -> None:
    words = "pulumi-slurm:jail: it is stale"
    in_its_pod = f"{SCONTROL} update nodename={SECOND} state=drain reason='{words}'"
    cluster.wait("the node is drained", lambda: cluster.pod(in_its_pod, name=SECOND).returncode == 0, SECONDS)
    assert writer(cluster) == "root"
    slurm(cluster, f"scontrol update nodename={SECOND} state=undrain")


Answer = TypeVar("Answer")


def ask(there: RealSlurm, folder: Path, work: Callable[[slurmrestd.SlurmRest], Awaitable[Answer]]) -> Answer:
    """Ask this Slurm by the operator's own client."""

    async def whole() -> Answer:
        rest = slurmrestd.SlurmRest(there.url, folder / "slurm/keys/jwt.key")
        try:
            return await work(rest)
        finally:
            await rest.close()

    return asyncio.run(whole())


def test_features_of_a_node_come_change_and_go(image: Path, tmp_path: Path) -> None:
    lists = [("cpu", "zone=a"), ("cpu", "zone=b"), ("cpu",)]

    async def work(rest: slurmrestd.SlurmRest) -> list[frozenset[str] | None]:
        seen: list[frozenset[str] | None] = []
        for features in lists:
            await rest.update_node("cpu-0", features)
            node = await rest.node("cpu-0")
            seen.append(node.features if node else None)
        return seen

    with RealSlurm(image, tmp_path / "slurm", b"k" * 32) as there:
        there.make_nodes("cpu", 1)
        assert ask(there, tmp_path, work) == [*map(frozenset, lists)]


def test_the_operator_keeps_a_node_out_that_somebody_set_down_and_reads_what_keeps_a_record(
    image: Path, tmp_path: Path
) -> None:
    with RealSlurm(image, tmp_path / "slurm", b"k" * 32) as there:
        there.make_nodes("cpu", 3)
        there.command("scontrol update nodename=cpu-1 state=down reason=bad-dimm")
        there.command("scontrol create reservation starttime=now+2days duration=60 user=root nodes=cpu-[0,2]")

        async def work(rest: slurmrestd.SlurmRest) -> tuple[SlurmNode | None, tuple[Reservation, ...]]:
            await rest.keep_out("cpu-1")
            return await rest.node("cpu-1"), await rest.reservations()

        node, (reservation,) = ask(there, tmp_path, work)
    assert node is not None
    assert (node.reason, node.reason_user) == ("bad-dimm", "root")
    assert node.facts is not None
    assert dataclasses.replace(node.facts, options=()) == Facts(8, 1000)
    assert dict(node.facts.options) | {"CoreSpecCount": 0, "MemSpecLimit": 0, "TmpDisk": 0} == dict(node.facts.options)
    assert {"DOWN", "DRAIN"} <= node.states
    assert reservation.nodes == {"cpu-0", "cpu-2"}
    assert reservation.users == "root"
    assert not window.is_ours(reservation)


def test_a_waiting_job_dies_with_the_record_of_the_node_that_it_names_and_lives_with_it(cluster: SmallCluster) -> None:
    slurm(cluster, f"scontrol update nodename={SECOND} state=drain reason=pulumi-slurm:scale-in")
    job = waiting(cluster)
    cluster.end(SECOND)
    reconfigured(cluster)
    assert slurm(cluster, f"squeue -h -t all -j {job} -o %T") == "PENDING"
    slurm(cluster, f"scontrol delete nodename={SECOND}")
    reconfigured(cluster)
    assert slurm(cluster, f"squeue -h -t all -j {job} -o %T") == "NODE_FAIL"


def test_a_record_keeps_the_size_that_it_was_made_with_and_slurm_refuses_less(cluster: SmallCluster) -> None:
    cluster.start_worker(SECOND, REVISION, memory_mib=1024)
    cluster.wait("a record", lambda: record(cluster).get("RealMemory") == "1024", SECONDS)
    slurm(cluster, f"scontrol update nodename={SECOND} state=drain reason=pulumi-slurm:update")
    restarted(cluster, memory_mib=2048)
    assert record(cluster) == {
        "State": "IDLE+DRAIN+DYNAMIC_NORM",
        "RealMemory": "1024",
        "Reason": "pulumi-slurm:update",
    }
    cluster.end(SECOND)
    slurm(cluster, f"scontrol delete nodename={SECOND}")
    cluster.start_worker(SECOND, REVISION, memory_mib=100_000_000)  # More than the machine has.
    cluster.wait("it is refused", lambda: "INVALID_REG" in record(cluster).get("State", ""), SECONDS)
    assert record(cluster)["Reason"].startswith("Low RealMemory")
    # Slurm puts those words in the place of a person's as well. The operator writes them back (drains.py).
    slurm(cluster, f"scontrol update nodename={SECOND} state=drain reason=bad-fan")
    assert (record(cluster)["Reason"], writer(cluster)) == ("bad-fan", "root")
    slurm(cluster, "scontrol reconfigure")
    cluster.wait("it is refused anew", lambda: record(cluster).get("Reason", "").startswith("Low RealMemory"), SECONDS)
    assert writer(cluster) == "slurm"
    slurm(cluster, f"scontrol update nodename={SECOND} reason='root: bad-fan'")
    assert {"DRAIN", "INVALID_REG"} <= {*record(cluster)["State"].split("+")}
    assert record(cluster)["Reason"] == "root: bad-fan"
    for state in ("undrain", "resume"):
        lifted = f"{SCONTROL} update nodename={SECOND} state={state}"
        assert "Invalid node state transition" in cluster.pod(lifted, name=CONTROLLER).stderr
    # So a person lifts it with the record. The operator deletes that, too, when the pod was told to end.
    slurm(cluster, f"scontrol delete nodename={SECOND}")
    cluster.end(SECOND)
    cluster.start_worker(SECOND, REVISION, memory_mib=512)
    cluster.wait("its own record", lambda: record(cluster).get("RealMemory") == "512", SECONDS)
    assert (record(cluster)["Reason"], writer(cluster)) == ("pulumi-slurm:new", "slurm")
    assert "INVALID_REG" not in record(cluster)["State"]
    assert WORKER in slurm(cluster, "sinfo -h -N -o %N")
