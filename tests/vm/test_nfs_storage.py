"""What populate says of exports of a real NFS server that can't hold a root, and that it leaves nothing on them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm_node import nfs_mounts, volume_probe
from slurm_node.log import NodeError
from slurm_node.system import mount_table

from components.config.storage import Nfs
from tests.vm.nfs_server import ADDRESS, NfsServer

NODE = "node-1"
VERSIONS = ("4.2", "3")


def options(version: str, *more: str) -> str:
    """What the program mounts an export with."""
    shared = {"server": ADDRESS, "path": "/x", "version": version, "mountOptions": []}
    return ",".join([*Nfs.model_validate(shared).options, *more])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NfsServer]:
    with NfsServer(tmp_path_factory.mktemp("nfs"), (NODE,), mebibytes=64) as started:
        started.export.chmod(0o755)
        yield started


@pytest.fixture(params=VERSIONS)
def volume(request: pytest.FixtureRequest, server: NfsServer, tmp_path: Path) -> Iterator[Path]:
    mounted = server.mount(NODE, tmp_path / "mount", options(request.param))
    try:
        yield mounted
    finally:
        server.recover()
        server.export.chmod(0o755)
        server.export_with("rw,no_root_squash")
        server.unmount(mounted)


def refusal(volume: Path) -> str:
    with pytest.raises(NodeError) as refused:
        volume_probe.check(volume)
    return str(refused.value)


def left(server: NfsServer) -> list[str]:
    return [path.name for path in server.export.iterdir() if path.name != "lost+found"]


def test_a_good_export_is_taken_with_the_mount_options_that_the_program_declares(
    volume: Path, server: NfsServer, capfd: pytest.CaptureFixture[str]
) -> None:
    volume_probe.check(volume)
    assert "advice" not in capfd.readouterr().err
    assert left(server) == []
    shown = nfs_mounts.of(mount_table(), volume)
    assert shown is not None
    assert {"lookupcache": "pos", "acregmax": "3", "acdirmax": "3", "local_lock": "none"}.items() <= shown.items()
    assert "hard" in shown


@pytest.mark.parametrize(
    ("export", "mode", "sentence"),
    [
        ("rw,root_squash", 0o755, "the jail's storage does not let root write: export it with no_root_squash"),
        ("rw,root_squash", 0o1777, "the jail's storage makes root another user (root_squash): export it with no_root"),
        ("rw,all_squash", 0o1777, "the jail's storage makes root another user (root_squash): export it with no_root"),
        ("ro,no_root_squash", 0o755, "the jail's storage is read-only: export it with rw, and mount it without ro"),
    ],
)
def test_an_export_that_squashes_or_is_read_only_is_refused_in_a_sentence(
    volume: Path, server: NfsServer, export: str, mode: int, sentence: str
) -> None:
    server.export.chmod(mode)
    server.export_with(export)
    assert sentence in refusal(volume)
    assert left(server) == []


def test_a_full_export_is_refused_in_a_sentence_and_taken_once_there_is_room(volume: Path, server: NfsServer) -> None:
    server.fill()
    assert refusal(volume).startswith("the jail's storage is full: make room on it, or enlarge pulumi-slurm:jail.")
    server.recover()
    volume_probe.check(volume)
    assert left(server) == []


def test_an_export_to_others_than_this_node_is_refused_in_a_sentence(volume: Path, server: NfsServer) -> None:
    server.export_with("rw,no_root_squash", clients="192.0.2.1")
    assert refusal(volume) == (
        "the jail's storage does not let root write: export it with no_root_squash to the addresses of all nodes"
    )


def test_version_3_without_locks_between_nodes_is_refused(server: NfsServer, tmp_path: Path) -> None:
    mounted = server.mount(NODE, tmp_path / "nolock", options("3", "nolock"))
    try:
        assert refusal(mounted).startswith("the jail's storage is mounted with nolock or local_lock")
    finally:
        server.unmount(mounted)


def test_version_3_on_a_node_whose_statd_has_ended_is_refused(server: NfsServer, tmp_path: Path) -> None:
    mounted = server.mount(NODE, tmp_path / "mount", options("3"))
    node = server.nodes[NODE]
    node.end_daemon("rpc.statd")
    try:
        assert refusal(mounted).startswith("the jail's storage has no POSIX locks")
        assert left(server) == []
    finally:
        server.unmount(mounted)
        server.start_locks(node)


def test_mounts_that_nobody_chose_options_for_are_advised(
    server: NfsServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    mounted = server.mount(NODE, tmp_path / "plain", "vers=4.2")
    try:
        volume_probe.check(mounted)
    finally:
        server.unmount(mounted)
    assert "advice: with these mount options of the jail's storage a node may see a name" in capfd.readouterr().err


def test_version_4_is_the_newest_that_the_server_has(server: NfsServer, tmp_path: Path) -> None:
    mounted = server.mount(NODE, tmp_path / "mount", options("4", "nconnect=4"))
    try:
        shown = nfs_mounts.of(mount_table(), mounted)
        assert shown is not None
        assert (shown["vers"], shown["nconnect"]) == ("4.2", "4")
    finally:
        server.unmount(mounted)
    assert not os.path.ismount(mounted)
