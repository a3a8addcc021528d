"""Advice about the jail's storage in a preview: options of NFS that a storage class, claim or version lacks."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest

from components.config import parse
from components.preflight import cluster_checks, storage_advice
from components.preflight.gpu_checks import ClusterState
from tests.unit.samples import changed

STORAGE: dict[str, Any] = {
    "metadata": {"name": "shared", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": "nfs.csi.k8s.io",
    "parameters": {"server": "nfs.example"},
    "mountOptions": ["hard", "nfsvers=4.1"],
}


def class_of(**more: Any) -> storage_advice.StorageClass:
    return storage_advice.storage_class({**STORAGE, **more})


BY_CLASS = changed("checks.cluster", True)
GOOD = ["nfsvers=4.1", "hard", "lookupcache=positive", "actimeo=3"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            {},
            "the storage class shared (nfs.csi.k8s.io) makes NFS volumes: give its mountOptions lookupcache=positive",
        ),
        ({"mountOptions": None}, "mountOptions lookupcache=positive, actimeo=3; else"),
        ({"mountOptions": ["lookupcache=none"]}, "mountOptions actimeo=3; else"),
        ({"mountOptions": [*GOOD, "actimeo=60"]}, "mountOptions actimeo=3; else"),
        ({"mountOptions": [*GOOD, "soft"]}, "mountOptions hard; else"),
        ({"mountOptions": [*GOOD, "nolock"]}, "mountOptions no nolock; else"),
        ({"mountOptions": [*GOOD, "nfsvers=4.2"]}, "mountOptions nfsvers=4.1; else"),
        ({"mountOptions": [*GOOD[1:], "vers=4"]}, "mountOptions nfsvers=4.1; else"),
        ({"provisioner": "efs.csi.aws.com"}, "shared (efs.csi.aws.com) makes NFS"),
        ({"provisioner": "cluster.local/nfs-subdir-external-provisioner"}, "makes NFS"),
        ({"provisioner": "file.csi.azure.com", "parameters": {"protocol": "nfs"}}, "makes NFS"),
        ({"provisioner": "csi.trident.netapp.io", "parameters": {"backendType": "ontap-nas"}}, "makes NFS"),
    ],
)
@pytest.mark.parametrize("name", [None, "shared"])
def test_a_class_that_mounts_nfs_without_the_options_is_a_warning_of_the_preview(
    monkeypatch: pytest.MonkeyPatch, name: str | None, more: dict[str, Any], words: str
) -> None:
    warned: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", warned.append)
    there = ClusterState((), frozenset(), (storage_advice.StorageClass("other", "nfs.csi.k8s.io"), class_of(**more)))
    cluster_checks.run(parse(changed("jail.storage.className", name, BY_CLASS)), lambda _: there)
    (sentence,) = warned
    assert sentence.startswith("jail.storage: ")
    assert words in sentence


@pytest.mark.parametrize(
    "there",
    [
        class_of(mountOptions=GOOD),
        class_of(mountOptions=["lookupcache=none", "actimeo=1"]),
        class_of(provisioner="cephfs.csi.ceph.com"),
        class_of(provisioner="file.csi.azure.com", parameters={"protocol": "smb"}),
        class_of(metadata={"name": "shared"}),
    ],
)
def test_a_class_that_is_well_or_is_not_the_jails_is_not_told_of(
    monkeypatch: pytest.MonkeyPatch, there: storage_advice.StorageClass
) -> None:
    warned: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", warned.append)
    cluster_checks.run(parse(BY_CLASS), lambda _: ClusterState((), frozenset(), (there,)))
    assert warned == []


def test_storage_that_no_class_makes_is_not_asked_for() -> None:
    for source in ({"hostPath": "/x"}, {"existingClaim": "x"}, {"nfs": {"server": "a", "path": "/b"}}):
        config = parse(changed("jail.storage", source, BY_CLASS))
        assert storage_advice.advice(config, [class_of()]) is None
        cluster_checks.run(config, lambda _: pytest.fail("asked"))


@pytest.mark.parametrize(
    ("storage", "asked", "words"),
    [
        ({"className": "shared"}, False, "if the storage class shared makes NFS volumes, give its mountOptions hard, "),
        ({"existingClaim": "x"}, False, "if the claim x is on NFS, give its volume's mountOptions hard, "),
        ({"existingClaim": "x"}, True, "if the claim x is on NFS"),
        ({}, False, None),
        ({"className": "shared"}, True, None),
        ({"hostPath": "/x"}, False, None),
        ({"nfs": {"server": "a", "path": "/b"}}, False, None),
    ],
)
def test_named_storage_that_nobody_looks_at_gets_its_advice_in_each_preview(
    monkeypatch: pytest.MonkeyPatch, storage: dict[str, Any], asked: bool, words: str | None
) -> None:
    told: list[str] = []
    monkeypatch.setattr(pulumi.log, "info", told.append)
    config = parse(changed("jail.storage", storage, changed("checks.cluster", asked)))
    cluster_checks.run(config, lambda _: ClusterState((), frozenset(), (class_of(mountOptions=GOOD),)))
    assert len(told) == (words is not None), told
    if words:
        assert words in told[0]
        assert "lookupcache=positive, actimeo=3, nfsvers=4.1; else a node may miss" in told[0]


@pytest.mark.parametrize(
    ("version", "advised"), [(None, False), ("3", False), ("4.1", False), ("4", True), ("4.2", True)]
)
def test_a_version_of_nfs_that_loses_times_is_a_warning_of_the_preview(
    monkeypatch: pytest.MonkeyPatch, version: str | None, advised: bool
) -> None:
    warned: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", warned.append)
    nfs = {"server": "a", "path": "/b", **({"version": version} if version else {})}
    cluster_checks.run(parse(changed("jail.storage", {"nfs": nfs})), lambda _: pytest.fail("asked"))
    assert len(warned) == advised
    for sentence in warned:
        assert sentence.startswith(f"jail.storage.nfs.version: with {version} a node")
        assert sentence.endswith("set 4.1")
