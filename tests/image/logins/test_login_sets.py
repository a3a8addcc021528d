"""sshd of a login node lets in the users and groups that its set names, and nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image.pods import LOGIN
from tests.image.small_cluster import NewCluster, SmallCluster

SSH = "/home/bob/.ssh"
PEOPLE = "groupadd lab && usermod -aG lab alice && useradd -m -s /bin/bash bob"


@pytest.fixture(scope="module")
def cluster(new_cluster: NewCluster) -> Iterator[SmallCluster]:
    with new_cluster() as started:
        assert started.jail(PEOPLE).returncode == 0
        public = Path(started.client("ssh")[6]).with_suffix(".pub").read_text().strip()
        put = f"mkdir -m 700 {SSH}; echo '{public}' > {SSH}/authorized_keys; chown -R bob:bob {SSH}"
        assert started.jail(put).returncode == 0
        yield started


def who_enters(cluster: SmallCluster) -> set[str]:
    """Those of alice and bob, who both have a key, whom sshd lets in."""
    done = {user: cluster.ssh("id -un", user=user) for user in ("alice", "bob")}
    for user, each in done.items():
        assert each.stdout == f"{user}\n" or (each.returncode == 255 and "Permission denied" in each.stderr), each
    return {user for user, each in done.items() if each.returncode == 0}


def test_members_of_a_group_enter_as_soon_as_they_are_in_it_and_no_longer(cluster: SmallCluster) -> None:
    cluster.start_login(allowGroups=["lab"])
    assert who_enters(cluster) == {"alice"}
    assert "User bob from" in cluster.log(LOGIN), "the node's log says who was refused"
    assert cluster.jail("usermod -aG lab bob").returncode == 0
    assert who_enters(cluster) == {"alice", "bob"}
    assert cluster.jail("gpasswd -d bob lab").returncode == 0
    assert who_enters(cluster) == {"alice"}


def test_a_group_that_nobody_has_made_lets_nobody_in_by_its_name(cluster: SmallCluster) -> None:
    cluster.start_login(allowGroups=["lab", "not-made"])
    assert who_enters(cluster) == {"alice"}


def test_users_enter_by_their_names_and_a_password_does_not_help_others(cluster: SmallCluster) -> None:
    cluster.start_login(allowUsers=["alice", "carol"], passwords=True)
    assert who_enters(cluster) == {"alice"}


def test_without_a_list_everybody_with_a_key_enters(cluster: SmallCluster) -> None:
    cluster.start_login()
    assert who_enters(cluster) == {"alice", "bob"}
