"""The cluster on a real NFS server has the version that the program mounts by default."""

from __future__ import annotations

from components.config.storage import Nfs
from tests.vm.nfs import nfs_cluster, test_nfs_cluster


def test_a_cluster_on_nfs_is_tried_with_the_default_version_first() -> None:
    assert test_nfs_cluster.VERSIONS[0] == Nfs.model_fields["version"].default


def test_populate_is_tried_with_every_version_that_a_cluster_has() -> None:
    assert set(test_nfs_cluster.VERSIONS) < set(nfs_cluster.EVERY_VERSION)
