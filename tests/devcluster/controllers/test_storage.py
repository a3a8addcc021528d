from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from devcluster.controllers.storage import PROVISIONED_BY, Delete, Provision, actions
from devcluster.node.addons import PROVISIONER

ROOT = Path("/state/volumes")
CLASSES = [
    {"metadata": {"name": "ours"}, "provisioner": PROVISIONER, "reclaimPolicy": "Delete"},
    {"metadata": {"name": "kept"}, "provisioner": PROVISIONER, "reclaimPolicy": "Retain"},
    {"metadata": {"name": "later"}, "provisioner": PROVISIONER, "volumeBindingMode": "WaitForFirstConsumer"},
    {"metadata": {"name": "foreign"}, "provisioner": "example.com/x"},
]


def claim(storage_class: str | None = "ours", **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "n", "name": "c", "uid": "1", **metadata},
        "spec": {
            "storageClassName": storage_class,
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def volume(
    policy: str = "Delete", phase: str = "Released", path: Path = ROOT / "pvc-1", **metadata: Any
) -> dict[str, Any]:
    return {
        "metadata": {"name": "pvc-1", "annotations": {PROVISIONED_BY: PROVISIONER}, **metadata},
        "spec": {"persistentVolumeReclaimPolicy": policy, "local": {"path": str(path)}},
        "status": {"phase": phase},
    }


def test_a_claim_gets_a_local_volume_on_the_node() -> None:
    [action] = actions([claim()], [], CLASSES, ROOT, "node")

    assert isinstance(action, Provision)
    assert action.folder == ROOT / "pvc-1"
    spec = action.volume["spec"]
    assert spec["local"] == {"path": "/state/volumes/pvc-1"}
    assert spec["accessModes"] == ["ReadWriteMany"]
    assert spec["claimRef"]["uid"] == "1"
    [term] = spec["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["node"]


@pytest.mark.parametrize("name", ["foreign", "missing", None, "later"])
def test_claims_of_other_classes_and_those_without_a_consumer_yet_wait(name: str | None) -> None:
    assert actions([claim(name)], [], CLASSES, ROOT, "node") == []


def test_a_claim_that_waits_for_its_consumer_gets_a_volume_once_it_has_one() -> None:
    waiting = claim("later", annotations={"volume.kubernetes.io/selected-node": "node"})

    assert len(actions([waiting], [], CLASSES, ROOT, "node")) == 1


def test_nothing_is_provisioned_twice() -> None:
    bound = claim()
    bound["spec"]["volumeName"] = "pvc-1"

    assert actions([bound], [], CLASSES, ROOT, "node") == []
    assert actions([claim()], [volume(phase="Available")], CLASSES, ROOT, "node") == []


def test_a_released_volume_goes_with_its_folder() -> None:
    assert actions([], [volume()], CLASSES, ROOT, "node") == [Delete(ROOT / "pvc-1", "pvc-1")]


@pytest.mark.parametrize(
    "kept",
    [
        volume("Retain"),
        volume(phase="Bound"),
        volume(path=Path("/home/data")),
        volume(path=ROOT / ".." / "etcd"),
        volume(annotations={}),
        volume(deletionTimestamp="2026-01-01T00:00:00Z"),
    ],
    ids=["retained", "bound", "outside", "outside by dots", "not ours", "being deleted"],
)
def test_no_other_folder_is_ever_deleted(kept: dict[str, Any]) -> None:
    assert actions([], [kept], CLASSES, ROOT, "node") == []


def test_the_class_decides_what_happens_to_the_folder_later() -> None:
    [action] = actions([claim("kept")], [], CLASSES, ROOT, "node")

    assert isinstance(action, Provision)
    assert action.volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
