"""The images that new nodes begin with, by a real containerd."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from devcluster.node import containerd, image_store, node_images

CONTAINERD = Path(shutil.which("containerd") or "/usr/bin/containerd")
FIRST, SECOND, THIRD = (f"localhost/store/{name}:1" for name in ("first", "second", "third"))


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory, binaries: Path) -> dict[str, Path]:
    """Image → its archive."""
    folder = tmp_path_factory.mktemp("archives")
    programs = {FIRST: "pause", SECOND: "coredns", THIRD: "pause"}
    return {
        image: node_images.archive((binaries / program).resolve(), image, folder / f"{image.split('/')[-1]}.tar")
        for image, program in programs.items()
    }


def prepare(cache: Path, *archives: Path) -> Path:
    store = image_store.prepare(cache / "a-new-node", cache, archives, CONTAINERD)
    assert store
    return store


def images(root: Path) -> set[str]:
    """Ask a containerd that runs on a node's folder alone."""
    with image_store.running(CONTAINERD, root / "containerd") as ctr:
        return set(containerd.run([*ctr, "images", "ls", "-q"]).split())


def contents(root: Path) -> dict[str, int]:
    """Hash of each content → its inode."""
    return {path.name: path.stat().st_ino for path in root.glob("containerd/*content*/blobs/sha256/*")}


def test_a_node_begins_with_a_stores_images_and_shares_their_contents(
    tmp_path: Path, archives: dict[str, Path]
) -> None:
    store = prepare(tmp_path, archives[FIRST], archives[SECOND])
    nodes = [tmp_path / "node-1", tmp_path / "node-2"]
    for node in nodes:
        node.mkdir()
        image_store.fill(node, store)

    assert all(images(node) == {FIRST, SECOND} for node in nodes)
    assert contents(nodes[0]) == contents(nodes[1]) == contents(store) != {}
    databases = [path for folder in (store, *nodes) for path in folder.glob("containerd/*/*.db")]
    assert len({path.stat().st_ino for path in databases}) == len(databases) >= 6
    record = json.loads((nodes[0] / containerd.RECORD).read_text())
    assert sorted(name for names in record.values() for name in names) == [FIRST, SECOND]


def test_what_a_node_does_to_its_images_changes_neither_store_nor_other_nodes(
    tmp_path: Path, archives: dict[str, Path]
) -> None:
    store, node = prepare(tmp_path, archives[FIRST]), tmp_path / "node"
    node.mkdir()
    image_store.fill(node, store)
    with image_store.running(CONTAINERD, node / "containerd") as ctr:
        containerd.run([*ctr, "images", "rm", "--sync", FIRST])

    assert images(node) == set()
    assert images(store) == {FIRST}


def test_another_set_of_images_begins_with_what_the_last_one_had(tmp_path: Path, archives: dict[str, Path]) -> None:
    before = contents(prepare(tmp_path, archives[FIRST], archives[SECOND]))
    store = prepare(tmp_path, archives[SECOND], archives[THIRD])

    assert images(store) == {SECOND, THIRD}
    shared = before.items() & contents(store).items()
    assert len(shared) >= 3, "the second image's layer, configuration and manifest"
    assert {name for names in json.loads((store / containerd.RECORD).read_text()).values() for name in names} == {
        SECOND,
        THIRD,
    }


def test_a_store_is_made_once_and_old_ones_go(tmp_path: Path, archives: dict[str, Path]) -> None:
    stores = [prepare(tmp_path, archives[image]) for image in (FIRST, SECOND)]
    made = [path.stat().st_ino for path in stores]
    assert [prepare(tmp_path, archives[image]).stat().st_ino for image in (FIRST, SECOND)] == made
    # Both were used within the same tick of the kernel's clock.
    os.utime(stores[0], (1, 1))
    third = prepare(tmp_path, archives[THIRD])
    assert {path.name for path in third.parent.iterdir()} - {".lock"} == {stores[1].name, third.name}


def test_nodes_with_images_and_nodes_elsewhere_get_none(tmp_path: Path, archives: dict[str, Path]) -> None:
    has_its_own = tmp_path / "node"
    (has_its_own / "containerd").mkdir(parents=True)
    elsewhere = Path("/dev/shm/a-node-that-is-not-there")
    for state in (has_its_own, elsewhere):
        assert image_store.prepare(state, tmp_path, [archives[FIRST]], CONTAINERD) is None
    assert not elsewhere.exists()
    assert list(tmp_path.iterdir()) == [has_its_own]
