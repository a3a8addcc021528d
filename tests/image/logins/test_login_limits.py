"""A user's limits on a login node, and on a worker outside of jobs, in this machine's own cgroups.

Also what slurmstepd, which can write limits, does not write for a job; tests/vm/test_v2_limits.py has version 2.

Effects of the limits of memory and processes: tests/e2e/accounts/test_users.py.
"""

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from slurm_node.accounts import profile_limits
from slurm_node.pod import cgroups

from tests.image import roots
from tests.image.logins import limit_files
from tests.image.pods import LOGIN, WORKER
from tests.image.small_cluster import ALICE, SmallCluster

CONTROLLERS = ("memory", "pids", "cpu")
GROUP = f"pulumi-slurm-test-{os.getpid()}"
# As a container runtime shows a pod its own groups: read-only, and nothing above them.
SHOW = f"""
for name in {" ".join(CONTROLLERS)}; do
    mkdir /run/all /sys/fs/cgroup/$name
    mount -t cgroup -o $name none /run/all
    mkdir -p /run/all/{GROUP}/$(hostname)
    mount --bind /run/all/{GROUP}/$(hostname) /sys/fs/cgroup/$name
    mount -o remount,bind,ro /sys/fs/cgroup/$name
    umount /run/all; rmdir /run/all
done
"""
FIFTH_OF_A_CPU = 200
TWO_LOOPS = f"""
held() {{ sed -n 's/^nr_throttled //p' /sys/fs/cgroup/cpu/users/{ALICE}/cpu.stat; }}
before=$(held)
for one in 1 2; do (while :; do :; done) & done
until [ $(held) -ge $((before + 20)) ]; do sleep 0.2; done
kill $(jobs -p); echo held
"""


def remove(group: Path) -> None:
    """Removes a group; processes of pods that have ended leave it a moment later."""
    deadline = time.monotonic() + 60
    while group.exists() and time.monotonic() < deadline:
        for folder in sorted((path for path in (group, *group.rglob("*")) if path.is_dir()), reverse=True):
            with suppress(OSError):
                folder.rmdir()
        time.sleep(0.1)  # Between two tries: nothing tells when the kernel has let the last process go.


@pytest.fixture(scope="module")
def cluster(image: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallCluster]:
    found = cgroups.find(Path("/proc/self/mountinfo").read_text()).by_name
    if not {*CONTROLLERS} <= found.keys() or len({found[name] for name in CONTROLLERS}) < len(CONTROLLERS):
        # A node of version 2 takes the other branch, which tests/native/login/test_user_limits.py runs everywhere.
        pytest.skip("this machine has no cgroup hierarchies of version 1, each with one controller")
    folder = tmp_path_factory.mktemp("limits")
    try:
        with SmallCluster(image, roots.make("bookworm", folder / "root"), folder) as started:
            started.start(SHOW)
            started.start_login(SHOW, cpuMillis=FIFTH_OF_A_CPU)
            yield started
    finally:
        for name in CONTROLLERS:
            remove(found[name] / GROUP)


def test_each_session_of_a_user_is_in_his_group_and_all_of_them_share_its_cpu(cluster: SmallCluster) -> None:
    assert "cgroups: version 1, writable" in cluster.log(LOGIN)
    belongs = cluster.ssh("cat /proc/self/cgroup").stdout.splitlines()
    for name in CONTROLLERS:
        assert [line for line in belongs if line.endswith(f":{name}:/{GROUP}/{LOGIN}/users/{ALICE}")], belongs
    quota = cluster.ssh(f"cat /sys/fs/cgroup/cpu/users/{ALICE}/cpu.cfs_quota_us").stdout
    assert int(quota) == FIFTH_OF_A_CPU * 100
    held = cluster.ssh(TWO_LOOPS, seconds=120)
    assert held.stdout == "held\n", held


def test_what_a_user_has_in_a_session_he_does_not_lift(cluster: SmallCluster) -> None:
    group = f"/sys/fs/cgroup/cpu/users/{ALICE}"
    for line in (f"echo -1 > {group}/cpu.cfs_quota_us", f"echo $$ > {group}/../../cgroup.procs"):
        refused = cluster.ssh(f"{line} && echo lifted")
        assert (refused.stdout, refused.returncode == 0) == ("", False), line
        # A shell says of a file that is not there "Directory nonexistent".
        assert re.search("Read-only file system|Permission denied", refused.stderr), refused


@pytest.mark.parametrize("user", [ALICE, 0])
def test_slurmstepd_opens_no_limit_for_a_job_even_if_it_is_the_users(cluster: SmallCluster, user: int) -> None:
    cluster.let_root_submit()
    assert limit_files.ways_in(cluster, "/sys/fs/cgroup/pids/pids.max", user) == []


def test_the_same_ways_lead_to_a_users_own_file(cluster: SmallCluster) -> None:
    for name in limit_files.WAYS:
        cluster.jail("echo 1 > mine", user=ALICE).check_returncode()
        assert limit_files.leads_to(cluster, name, "/home/alice/mine", ALICE), name


def test_start_up_files_that_run_before_the_job_are_in_a_group_of_their_user(cluster: SmallCluster) -> None:
    assert "cgroups: version 1, writable" in cluster.log(WORKER)
    cluster.jail("echo 'cat /proc/self/cgroup > ~/groups' >> ~/.profile", user=ALICE)
    assert cluster.batch("echo ran", "--export=NONE") == "ran\n"
    belongs = cluster.jail("cat ~/groups", user=ALICE).stdout.splitlines()
    group = f"users/{ALICE}"
    for name in CONTROLLERS:
        assert [line for line in belongs if line.endswith(f":{name}:/{GROUP}/{WORKER}/{group}")], belongs
    limits = f"cat /sys/fs/cgroup/memory/{group}/memory.limit_in_bytes /sys/fs/cgroup/pids/{group}/pids.max"
    assert cluster.pod(limits).stdout.split() == [
        str(profile_limits.MEMORY_MIB * 2**20),
        str(profile_limits.PROCESSES),
    ]
