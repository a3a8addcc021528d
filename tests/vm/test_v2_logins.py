"""Limits of a user on a login node with cgroup v2, in sessions of a real sshd."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.image.pods import LOGIN
from tests.image.small_cluster import ALICE
from tests.vm import v2_lifts
from tests.vm.v2_cluster import V2Cluster

GROUP = f"/sys/fs/cgroup/users/{ALICE}"
FORKS = """perl -e 'while (defined($p = fork)) { $p or exec "sleep", "60"; push @p, $p; last if @p > %d }
print scalar(@p), " $!"; kill 9, @p'"""
THROTTLED_PERIODS = 20
"""Of 100 ms each: so long two loops run in which the kernel holds them back."""
OVERRUN = 0.2
"""Parts of a CPU: in each period, each of two processors may let a loop run until its next tick, 10 ms later."""
TWO_LOOPS = f"""
of() {{ sed -n "s/^$1 //p" {GROUP}/cpu.stat; }}
now() {{ cut -d' ' -f1 /proc/uptime; }}
began=$(now) used=$(of usage_usec) held=$(of nr_throttled)
for one in 1 2; do (while :; do :; done) & done
until [ $(of nr_throttled) -ge $((held + {THROTTLED_PERIODS})) ]; do sleep 0.2; done
echo $began $used $(now) $(of usage_usec)
kill $(jobs -p)
"""
HELD, LARGER = 30, 80
"""Parts of a user's memory, in percent: one process may have either, and two may not have both.

The one that comes second is the larger when it meets the limit.
"""
MEET = "/tmp/two-sessions"
"""Folder of two pipes, by which one session waits for the other."""


def test_a_session_is_in_its_users_group(cluster: V2Cluster) -> None:
    assert "cgroups: version 2, writable" in cluster.log(LOGIN)
    wanted = cluster.logins
    said = cluster.ssh(f"cat /proc/self/cgroup; cd {GROUP}; cat memory.max pids.max cpu.max").stdout.splitlines()
    assert said[0].endswith(f"/users/{ALICE}")
    assert said[1:] == [str(wanted.mib << 20), str(wanted.processes), f"{wanted.cpu_millis * 100} 100000"]


def fill(mib: int, then: str = "") -> str:
    """Return a process that takes so much memory, runs a shell command meanwhile, and tells its exit status."""
    return f"""perl -e '$n = length("a" x (shift() << 20)); system(shift)' {mib} '{then}'; echo status $?"""


def test_all_sessions_of_a_user_share_his_memory(cluster: V2Cluster) -> None:
    """The kernel kills the larger process, and neither the other one nor the sessions."""
    held, larger = (cluster.logins.mib * percent // 100 for percent in (HELD, LARGER))
    alone = cluster.ssh(f"rm -rf {MEET}; mkdir {MEET}; mkfifo {MEET}/held {MEET}/over; {fill(larger)}")
    assert alone.stdout == "status 0\n", alone
    first = fill(held, f"echo >{MEET}/held; read _ <{MEET}/over")
    second = f"read _ <{MEET}/held; {fill(larger)}; echo >{MEET}/over"
    with ThreadPoolExecutor(2) as sessions:
        told = [done.stdout for done in sessions.map(cluster.ssh, (first, second))]
    assert told == ["status 0\n", "status 137\n"]
    assert cluster.ssh("echo another").stdout == "another\n"


def test_a_user_has_so_many_processes_and_no_more(cluster: V2Cluster) -> None:
    most = cluster.logins.processes
    forked, why = cluster.ssh(FORKS % (2 * most)).stdout.split(maxsplit=1)
    assert why == "Resource temporarily unavailable"
    assert most - 15 < int(forked) < most


def test_a_user_has_his_part_of_the_cpus(cluster: V2Cluster) -> None:
    """Two loops are held back, and have no more than his part. What earlier sessions used does not count."""
    told = cluster.ssh(TWO_LOOPS, seconds=120)
    began, used, ended, used_then = map(float, told.stdout.split())
    part = (used_then - used) / 1e6 / (ended - began)
    assert part < cluster.logins.cpu_millis / 1000 + OVERRUN, told


def test_a_user_lifts_nothing_that_the_pods_root_lifts(cluster: V2Cluster) -> None:
    lifts = v2_lifts.OF_A_USER
    user = v2_lifts.told(cluster.ssh(v2_lifts.tries(lifts)).stdout)
    assert (user.uid, user.missing, user.ended, user.lifted) == (str(ALICE), (), True, frozenset())
    root = v2_lifts.told(cluster.pod(v2_lifts.by_who_may(lifts, GROUP), name=LOGIN).stdout)
    assert (root.missing, root.ended, root.lifted) == ((), True, frozenset(lifts))
