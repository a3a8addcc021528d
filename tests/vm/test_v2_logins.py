"""What a user may use of a login node on cgroup v2, in sessions of a real sshd."""

from __future__ import annotations

from tests.image.small_cluster import ALICE, LOGIN
from tests.vm.v2_cluster import FIFTH_OF_A_CPU, LOGIN_MIB, LOGIN_PROCESSES, V2Cluster

GROUP = f"/sys/fs/cgroup/users/{ALICE}"
FORKS = """perl -e 'while (defined($p = fork)) { $p or exec "sleep", "60"; push @p, $p; last if @p > 100 }
print scalar(@p), " $!"; kill 9, @p'"""
TWO_LOOPS = f"""
for one in 1 2; do (while :; do :; done) & done
until grep -q 'nr_throttled [1-9]' {GROUP}/cpu.stat; do sleep 0.2; done
kill $(jobs -p); echo held
"""


def test_a_session_is_in_its_users_group(cluster: V2Cluster) -> None:
    assert "cgroups: version 2, writable" in cluster.log(LOGIN)
    said = cluster.ssh(f"cat /proc/self/cgroup; cd {GROUP}; cat memory.max pids.max cpu.max").stdout.splitlines()
    assert said[0].endswith(f"/users/{ALICE}")
    assert said[1:] == [str(LOGIN_MIB << 20), str(LOGIN_PROCESSES), f"{FIFTH_OF_A_CPU * 100} 100000"]


def test_all_sessions_of_a_user_share_his_memory(cluster: V2Cluster) -> None:
    """Who takes too much loses that process, and neither the session nor another user's."""
    said = cluster.ssh("perl -e 'print length(q(a) x (200 << 20))'; echo status $?")
    assert said.stdout == "status 137\n", said
    assert cluster.ssh("echo another").stdout == "another\n"


def test_a_user_has_so_many_processes_and_no_more(cluster: V2Cluster) -> None:
    forked, why = cluster.ssh(FORKS).stdout.split(maxsplit=1)
    assert why == "Resource temporarily unavailable"
    assert LOGIN_PROCESSES - 10 < int(forked) < LOGIN_PROCESSES


def test_a_user_has_his_part_of_the_cpus(cluster: V2Cluster) -> None:
    held = cluster.ssh(TWO_LOOPS, seconds=120)
    assert held.stdout == "held\n", held


def test_a_user_lifts_none_of_it(cluster: V2Cluster) -> None:
    for line in (
        f"echo max > {GROUP}/cpu.max", f"echo max > {GROUP}/memory.max", "echo $$ > /sys/fs/cgroup/cgroup.procs",
        f"mkdir {GROUP}/own", "unshare -UrmC sh -c 'mount -t cgroup2 none /tmp && echo max > /tmp/memory.max'",
    ):  # fmt: skip
        refused = cluster.ssh(f"{line} && echo lifted")
        assert (refused.stdout, refused.returncode == 0) == ("", False), line
