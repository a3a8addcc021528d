from pathlib import Path

from slurm_node.pod import cgroups

V1 = """\
30 29 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw
31 30 0:27 /kubepods/pod1/c1 /sys/fs/cgroup/memory ro,nosuid master:9 - cgroup cgroup rw,memory
32 30 0:28 /kubepods/pod1/c1 /sys/fs/cgroup/freezer ro - cgroup cgroup rw,freezer
33 30 0:29 / /sys/fs/cgroup/unified ro - cgroup2 cgroup2 rw
34 30 0:30 / /run/jail ro - cgroup cgroup rw,cpu
"""
V2 = "30 29 0:26 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw,nsdelegate\n"


def test_version_1_controllers_are_found_and_the_unified_folder_beside_them_is_not_version_2() -> None:
    found = cgroups.find(V1)
    assert found.v1 == (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup/freezer"))
    assert found.v2 is None


def test_version_2_is_the_mount_at_the_top() -> None:
    assert cgroups.find(V2) == cgroups.Controllers((), Path("/sys/fs/cgroup"))
