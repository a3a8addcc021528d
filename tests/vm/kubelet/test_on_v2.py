"""The whole dev cluster on cgroup v2: pods of a real kubelet, with the runtime's profile and namespaces.

`make test-vm TESTS=tests/vm/kubelet` runs it: `make up` alone takes about ten minutes in a guest.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from devcluster.cli import up
from devcluster.node import node_cli
from devcluster.node.instance import Instance
from tests.e2e.conftest import Slurm
from tests.vm import v2_lifts
from tests.vm.test_v2_limits import EAT

pytestmark = pytest.mark.timeout(2400)
GROUPS = "find /sys/fs/cgroup/system.slice -mindepth 2 -type d | sort"
REST = "\n".join(f"/sys/fs/cgroup/system.slice/cpu-0_slurmstepd.scope/{name}" for name in ("slurmd", "system"))


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    instance = Instance.named("guest")
    try:
        yield Slurm(up.up(instance, owner=os.getpid()))
    finally:
        node_cli.remove(instance)


def is_at_rest(slurm: Slurm) -> bool:
    return slurm.all_idle() and slurm.on_pod("cpu-0", GROUPS).ok() == REST


def test_pods_have_groups_of_the_kubelet_and_a_namespace_and_filter_of_the_runtime(slurm: Slurm) -> None:
    """What the entry and slurmd made lies below the pod's own group, which the pod sees as the top."""
    shown = slurm.on_pod(
        "cpu-0", "cat /proc/1/cgroup; grep ^Seccomp: /proc/1/status; cat /sys/fs/cgroup/memory.max"
    ).ok()
    group, seccomp, memory = shown.splitlines()
    assert group == "0::/pod"
    assert seccomp.split() == ["Seccomp:", "2"]
    limit = slurm.get("pod", "cpu-0")["spec"]["containers"][0]["resources"]["limits"]["memory"]
    assert int(memory) == int(limit.removesuffix("Mi")) << 20 if limit.endswith("Mi") else int(memory) > 0


LIVES = {
    "step on both nodes": ("srun -Q -N2 echo ran", "ran\nran"),
    "batch": ("sbatch -Q -W -o out --wrap 'echo ran' && cat out", "ran"),
    "array": ("sbatch -Q -W --array=0-2 -o out-%a --wrap 'echo ran' && cat out-*", "ran\nran\nran"),
    "of two components": ("srun -Q -n1 echo ran : -n1 echo ran", "ran\nran"),
    "processes that outlive it": ("sbatch -Q -W -o out --wrap 'setsid sleep 1000 & echo ran' && cat out", "ran"),
}


@pytest.mark.parametrize("name", LIVES)
def test_a_job_ends_and_leaves_nothing(slurm: Slurm, name: str) -> None:
    line, wanted = LIVES[name]
    assert slurm.sh(line, seconds=180).ok() == wanted
    slurm.wait("rest", lambda: is_at_rest(slurm), 120)


def test_a_cancelled_job_ends_with_its_processes(slurm: Slurm) -> None:
    job = slurm.sh("sbatch --parsable -w cpu-0 -o /dev/null --wrap 'setsid sleep 1000 & sleep 1000'", seconds=120).ok()
    slurm.wait("it runs", lambda: "sleep" in slurm.on_pod("cpu-0", "ps -eo comm").ok(), 120)
    slurm.sh(f"scancel {job}", seconds=120).ok()
    slurm.wait("rest", lambda: is_at_rest(slurm), 120)
    assert "sleep" not in slurm.on_pod("cpu-0", "ps -u 1000 -o comm").stdout


def test_too_much_memory_is_told_in_slurms_words_and_kept_in_its_records(slurm: Slurm) -> None:
    ended = slurm.sh(f"srun -n1 --mem=60 {EAT % 300}", seconds=180)
    assert "oom_kill" in ended.stderr, ended
    assert "Out Of Memory" in ended.stderr
    script = "@held = (q(a) x (100 << 20)); sleep 45"
    job = slurm.sh(
        f"sbatch --parsable -W --mem=300 --acctg-freq=5 -o out --wrap \"srun perl -e '{script}'\"", seconds=240
    ).ok()
    states = "sacct -n -X -P -o State -S now-1hour"
    slurm.wait("its record", lambda: "OUT_OF_MEMORY" in slurm.sh(states, seconds=120).ok(), 120)
    used = slurm.sh(f"sacct -n -P --noconvert -o MaxRSS -j {job}.0", seconds=120).ok()
    assert 100 << 20 <= int(used) <= 300 << 20


def test_root_in_a_job_lifts_nothing_that_the_pods_root_lifts(slurm: Slurm) -> None:
    lifts = v2_lifts.OF_ROOT_IN_A_JOB
    slurm.sh(f"rm -f go-on tries.out; cat > tries <<'SHELL'\n{v2_lifts.tries(lifts, until='go-on')}\nSHELL").ok()
    slurm.sh("sbatch -Q -w cpu-0 --mem=100 -o tries.out --wrap 'sudo sh tries'", seconds=180).ok()

    def of_the_job() -> v2_lifts.Told:
        return v2_lifts.told(slurm.sh("cat tries.out", seconds=120).ok())

    slurm.wait("it has tried", lambda: of_the_job().ended, 180)
    job = of_the_job()
    pod = v2_lifts.told(slurm.on_pod("cpu-0", v2_lifts.by_who_may(lifts, job.group), seconds=120).ok())
    slurm.sh("touch go-on", seconds=120).ok()
    assert (job.uid, job.missing, job.lifted) == ("0", (), frozenset())
    assert (pod.uid, pod.missing, pod.lifted) == ("0", (), frozenset(lifts))


def test_a_login_session_is_in_its_users_group(slurm: Slurm) -> None:
    own, memory, processes = slurm.sh(
        "cat /proc/self/cgroup; cd /sys/fs/cgroup/users/$(id -u) && cat memory.max pids.max", seconds=120
    ).ok().splitlines()  # fmt: skip
    assert own == "0::/users/1000"
    assert memory.isdigit()
    assert processes.isdigit()
