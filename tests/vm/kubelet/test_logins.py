"""Limits of a user in a login pod of a real kubelet, in sessions of a real sshd (tests/vm/test_v2_logins.py)."""

from __future__ import annotations

import shlex

from tests.vm import v2_lifts
from tests.vm.kubelet.kubelet_cluster import KubeletCluster
from tests.vm.test_v2_logins import (
    test_a_session_is_in_its_users_group,
    test_a_user_has_his_part_of_the_cpus,
    test_a_user_has_so_many_processes_and_no_more,
    test_a_user_lifts_nothing_that_the_pods_root_lifts,
    test_all_sessions_of_a_user_share_his_memory,
)

__all__ = [
    "test_a_session_is_in_its_users_group",
    "test_a_user_has_his_part_of_the_cpus",
    "test_a_user_has_so_many_processes_and_no_more",
    "test_a_user_lifts_nothing_that_the_pods_root_lifts",
    "test_all_sessions_of_a_user_share_his_memory",
]


def test_who_becomes_root_on_a_login_node_lifts_nothing_either(cluster: KubeletCluster) -> None:
    script = v2_lifts.tries(v2_lifts.OF_A_USER)
    root = v2_lifts.told(cluster.ssh(f"sudo sh -c {shlex.quote(script)}").stdout)
    assert (root.uid, root.missing, root.ended, root.lifted) == ("0", (), True, frozenset())
