"""Preparations of a node for fast networks: NCCL's file, and the limit of locked memory."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from slurm_node.jail import nccl, tree_plan
from slurm_node.pod import pinned_memory, settings

from devcluster.machine.bootstrap import CHECKOUT

LIMIT = """
import resource
from slurm_node.pod import pinned_memory
resource.setrlimit(resource.RLIMIT_MEMLOCK, (4096, {hard}))
pinned_memory.raise_limit()
print(*resource.getrlimit(resource.RLIMIT_MEMLOCK))
"""


def test_nccl_is_told_in_a_file_of_the_node(tmp_path: Path) -> None:
    node = settings.read_node({"SLURM_NODE": '{"controller": "c", "nccl": {"NCCL_IB_TC": "41", "NCCL_IB_HCA": "=m"}}'})
    file = nccl.write(node.nccl, tmp_path / "run" / "nccl.conf")
    assert file is not None
    assert file.read_text() == "NCCL_IB_HCA==m\nNCCL_IB_TC=41\n"
    mounts = {each.target: each for each in tree_plan.plan(settings.Jail("r1"), nccl_conf=file)}
    assert (mounts["/etc/nccl.conf"].source, mounts["/etc/nccl.conf"].kind) == (str(file), tree_plan.Kind.FILE)


BIND = """
import sys
from pathlib import Path
from slurm_node.jail import nccl, tree
from slurm_node.jail.tree_plan import Kind, Mount, plan
from slurm_node.pod.settings import Jail
from slurm_node.pod.system import MountFlag, mount
mount("none", Path("/"), flags=MountFlag.REC | MountFlag.PRIVATE)
mount("run", Path("/run"), "tmpfs")
folder = Path(sys.argv[1])
file = nccl.write((("NCCL_IB_TC", "41"),), folder / "run" / "nccl.conf")
tree.build([Mount(Kind.BIND, str(folder / "root"), "/"),
            *plan(Jail("r1"), nccl_conf=file)[-1:]], folder / "tree")
print((folder / "tree/etc/nccl.conf").read_text(), end="")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")
def test_the_nodes_file_lies_over_the_shared_root_and_leaves_nothing_of_it_there(tmp_path: Path) -> None:
    """Two nodes share a root and differ in what NCCL is told; the root itself gets an empty mount point."""
    (tmp_path / "root/run").mkdir(parents=True)
    done = subprocess.run(
        ["unshare", "--mount", sys.executable, "-c", BIND, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={"PYTHONPATH": ".:images/slurm", "PATH": "/usr/bin:/bin:/sbin:/usr/sbin"},
        cwd=CHECKOUT,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "NCCL_IB_TC=41"
    assert (tmp_path / "root/etc/nccl.conf").read_text() == ""


def test_without_anything_to_tell_the_images_own_file_stays(tmp_path: Path) -> None:
    assert nccl.write((), tmp_path / "nccl.conf") is None
    assert "/etc/nccl.conf" not in {each.target for each in tree_plan.plan(settings.Jail("r1"))}


def test_shared_memory_has_a_size_of_its_own() -> None:
    def sizes(variable: str) -> tuple[str, str]:
        mounts = {each.target: each for each in tree_plan.plan(settings.read_jail({"SLURM_JAIL": variable}))}
        return mounts["/tmp"].options, mounts["/dev/shm"].options

    assert sizes('{"revision": "r", "tmpMib": 64}') == ("mode=1777,size=64m", "mode=1777,size=64m")
    assert sizes('{"revision": "r", "tmpMib": 64, "shmMib": 512}') == ("mode=1777,size=64m", "mode=1777,size=512m")


def limit(hard: str, *command: str) -> tuple[str, str]:
    """The limits of a process that raised its own, and what it said."""
    done = subprocess.run(
        [*command, sys.executable, "-c", LIMIT.format(hard=hard)],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        env={"PYTHONPATH": ".:images/slurm", "PATH": "/usr/bin:/bin:/sbin:/usr/sbin"},
        cwd=CHECKOUT,
    )
    return done.stdout.strip(), done.stderr + done.stdout


def test_memory_can_be_pinned_without_limit_where_the_pod_may_raise_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, tuple[int, int]]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: asked.append((which, limits)))
    pinned_memory.raise_limit()
    assert asked == [(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))]


def test_a_pod_that_may_not_raise_the_limit_goes_as_far_as_it_can_and_says_so() -> None:
    drop = ("setpriv", "--bounding-set=-sys_resource", "--inh-caps=-sys_resource")
    _, words = limit("8192", *drop)
    assert "8192 8192" in words
    assert "jobs can pin 8 KiB of memory each" in words
    assert "SYS_RESOURCE" in words
