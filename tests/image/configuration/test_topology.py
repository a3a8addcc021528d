"""Declared topologies in a real slurmctld: it takes the files, and nodes keep the places that the operator gives."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Final

import pytest
from slurm_operator.decide.cluster import config, topologies
from slurm_operator.decide.nodes import topology
from slurm_operator.findings import Finding
from slurm_operator.state.slurm import SlurmNode

from components.config import parse
from components.slurm.conf.topology_yaml import topology_yaml
from contract import names
from tests.image.pods import CONTROLLER, REVISION, SECOND, WORKER
from tests.image.small_cluster import ALICE, NewCluster, SmallCluster
from tests.unit.samples import SMALL, changed

TOPOLOGIES: Final[list[dict[str, Any]]] = [
    {"name": "fabric", "type": "tree", "default": True, "switches": {"core": ["rack1", "pods"]}},
    {"name": "nvlink", "type": "block", "blocks": ["a", "b"], "blockSizes": [2, 4]},
    {"name": "plain", "type": "flat"},
]
PLACES: Final = [{"name": "fabric", "unit": "pods", "labels": ["leaf"]}, {"name": "nvlink", "unit": "a"}]
RENDERED: Final = topology_yaml(
    parse(changed("nodeSets.0.topology", PLACES, changed("slurm", {"topologies": TOPOLOGIES}, SMALL)))
)


@pytest.fixture(scope="module")
def cluster(new_cluster: NewCluster) -> Iterator[SmallCluster]:
    with new_cluster(slurm={"topologies": TOPOLOGIES}, node_set={"topology": PLACES}) as one:
        yield one


def scontrol(cluster: SmallCluster, words: str) -> str:
    done = cluster.pod(f"/opt/slurm/bin/scontrol {words}", name=CONTROLLER)
    return f"{done.stdout}{done.stderr}"


def nodes(cluster: SmallCluster, unit: str, of: str = "fabric") -> list[str]:
    """The nodes that slurmctld shows of a switch or block."""
    lines = [dict(word.partition("=")[::2] for word in line.split()) for line in
             scontrol(cluster, f"show topology {of}").splitlines()]  # fmt: skip
    return [line.get("Nodes", "") for line in lines if unit in (line.get("SwitchName"), line.get("BlockName"))]


def place(cluster: SmallCluster, at: str, node: str = WORKER) -> str:
    """Give a node a place as the operator does; what slurmctld says of it."""
    return scontrol(cluster, f"update nodename={node} topology={at}").strip()


def test_slurmctld_has_all_declared_topologies(cluster: SmallCluster) -> None:
    shown = scontrol(cluster, "show topology fabric")
    assert "SwitchName=core Level=2" in shown
    assert "Switches=rack1,pods" in shown
    blocks = scontrol(cluster, "show topology nvlink")
    assert "BlockName=b BlockIndex=1 BlockSize=2" in blocks
    assert "AggregatedBlock=a,b" in blocks
    assert "PartitionName=main" in scontrol(cluster, "show partition main")


def test_a_node_outside_of_its_partitions_tree_gets_no_job_beside_one_inside(cluster: SmallCluster) -> None:
    """So no node is undrained before it has its place."""
    cluster.start_second_worker()

    def tried(options: str) -> str:
        return cluster.jail(f"sbatch --test-only {options} --wrap true", user=ALICE).stderr

    assert place(cluster, "fabric:pods-unlabeled,nvlink:a") == ""
    for options in (f"-w {SECOND}", "-N2"):
        assert "Requested node configuration is not available" in tried(options)
    assert place(cluster, "fabric:rack1", SECOND) == ""
    for options in (f"-w {SECOND}", "-N2"):
        assert "to start at" in tried(options)


def test_a_node_keeps_its_place_through_reconfigure_restart_and_a_new_pod(cluster: SmallCluster) -> None:
    def keeps() -> bool:
        there = [nodes(cluster, unit) for unit in ("pods", "spine1", "leaf7")]
        return there == [[WORKER]] * 3 and nodes(cluster, "b", "nvlink") == [WORKER]

    assert place(cluster, "fabric:pods:spine1:leaf7,nvlink:b") == ""
    assert keeps(), "slurmctld makes the switches of labels"
    assert "Topology=fabric:pods:spine1:leaf7,nvlink:b" in scontrol(cluster, f"show node {WORKER}")
    scontrol(cluster, "reconfigure")
    cluster.wait("the place is kept through a reconfigure", keeps, 60)
    cluster.restart_controller()
    cluster.wait("the place is kept through a restart", keeps, 60)
    cluster.start_worker(WORKER, REVISION)
    cluster.wait("the new pod is ready", lambda: cluster.state() == "ready", 90)
    assert keeps(), "the place is kept by a node that registers anew"
    cluster.wait("its door to Slurm is open", lambda: cluster.jail("sinfo", user=ALICE).returncode == 0, 30)
    assert cluster.batch("hostname", f"-w{WORKER}") == f"{WORKER}\n"


@pytest.mark.parametrize(
    "at",
    [
        *("fabric:rack1", "fabric:core:rack1", "fabric:pods-unlabeled", "fabric:pods:new", "fabric:pods:new1:new2"),
        *("fabric:core", "fabric:pods", "fabric:absent", "fabric:absent:rack1", "nvlink:a", "nvlink:c", "gone:a"),
    ],
)
def test_the_operator_gives_the_places_that_slurmctld_takes(cluster: SmallCluster, at: str) -> None:
    taken = topology.takes(topology.of_files({names.TOPOLOGY_YAML: RENDERED}), at)
    refused = place(cluster, at)
    assert (refused == "") is taken, refused
    assert taken or "Requested topology configuration is not available" in refused


@dataclasses.dataclass
class Steps:
    """Takes slurmctld to other files by the operator's own steps, as it does pass by pass."""

    cluster: SmallCluster
    files: dict[str, str]
    place: str = ""

    def to(self, wanted: dict[str, str], place_there: str) -> list[str]:
        """Go there, and return after each step whether the tree is there, and whether it is the partitions' own."""
        seen = []
        while self.files != wanted:
            found = topologies.before_reading(
                wanted, self.files, {WORKER: SlurmNode(WORKER, frozenset(), topology=self.place)}
            )
            if isinstance(found, Finding):
                assert "waits for their places" in found.message, found
                assert self.place != place_there
                self._put(place_there)
                continue
            for change in found.leaving:
                self._put(change.topology or "")
            self._read(dict(found.files))
            is_there, is_used = ("SwitchName=core" in scontrol(self.cluster, f"show topology {name}")
                                 for name in ("fabric", ""))  # fmt: skip
            seen.append("used" if is_used else "there" if is_there else "gone")
        return seen

    def _put(self, at: str) -> None:
        assert place(self.cluster, at) == ""
        self.place = at

    def _read(self, files: dict[str, str]) -> None:
        for name in {*self.files, *files}:
            text = files.get(name)
            change = f"rm /etc/slurm/{name}" if text is None else f"cat > /etc/slurm/{name} <<'TEXT'\n{text}TEXT"
            self.cluster.pod(change, name=CONTROLLER).check_returncode()
        scontrol(self.cluster, "reconfigure")
        mark = config.mark(files[names.SLURM_CONF])
        self.cluster.wait("it is read", lambda: config.mark(scontrol(self.cluster, "show config")) == mark, 60)
        self.files = files


def test_a_tree_comes_and_goes_under_running_and_waiting_jobs(new_cluster: NewCluster) -> None:
    """On a node that had no place before; slurmctld holds no job for it."""
    with new_cluster() as cluster:
        without = {names.SLURM_CONF: cluster.pod(f"cat /etc/slurm/{names.SLURM_CONF}", name=CONTROLLER).stdout}
        with_tree = config.marked({**without, names.TOPOLOGY_YAML: RENDERED})
        submit = f"sbatch --parsable --mem=100 -n{cluster.cpus} -o /dev/null --wrap 'sleep 600'"
        jobs = [cluster.jail(submit, user=ALICE).stdout.strip() for _ in range(3)]

        def states() -> list[str]:
            shown = cluster.jail(f"squeue -h -S i -j {','.join(jobs)} -o %T:%r", user=ALICE).stdout.split()
            assert not [state for state in shown if "Held" in state], shown
            return [state.partition(":")[0] for state in shown]

        cluster.wait("one runs", lambda: states() == ["RUNNING", "PENDING", "PENDING"], 60)
        steps = Steps(cluster, without)
        assert steps.to(with_tree, "fabric:pods:spine1:leaf7,nvlink:a") == ["there", "used"]
        assert nodes(cluster, "leaf7") == [WORKER]
        assert states() == ["RUNNING", "PENDING", "PENDING"]
        cluster.jail(f"scancel {jobs.pop(0)}", user=ALICE)
        cluster.wait("the next runs in the tree", lambda: states() == ["RUNNING", "PENDING"], 60)

        assert steps.to(without, "") == ["there", "gone"]
        assert states() == ["RUNNING", "PENDING"]
        cluster.jail(f"scancel {jobs.pop(0)}", user=ALICE)
        cluster.wait("the last runs without one", lambda: states() == ["RUNNING"], 60)
        cluster.jail(f"scancel {jobs.pop(0)}", user=ALICE)


def test_slurmctld_ends_with_files_that_lack_a_nodes_place(new_cluster: NewCluster) -> None:
    """So the operator takes a node out, or holds the files, before slurmctld reads them."""
    with new_cluster(slurm={"topologies": TOPOLOGIES}, node_set={"topology": PLACES}) as cluster:
        assert place(cluster, "fabric:rack1") == ""
        cluster.pod(f"sed -i s/rack1/rack2/ /etc/slurm/{names.TOPOLOGY_YAML}", name=CONTROLLER).check_returncode()
        scontrol(cluster, "reconfigure")
        ended = "Invalid node topology specified fabric:rack1"
        cluster.wait("slurmctld ends", lambda: ended in cluster.log(CONTROLLER), 60)
