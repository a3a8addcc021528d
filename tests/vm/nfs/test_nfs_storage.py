"""Populate refuses exports of a real NFS server that can't hold a root, says why, and leaves nothing on them."""

from __future__ import annotations

import json
import os
import shutil
import struct
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from slurm_node.accounts import accounts
from slurm_node.pod import paths
from slurm_node.pod.log import NodeError
from slurm_node.pod.system import mount_table
from slurm_node.roles import populate
from slurm_node.roots import inventory, nfs_mounts, old_roots, volume_probe

from components.config.storage import Nfs
from devcluster.images.layers import unpack_image
from tests.vm.nfs.nfs_cluster import EVERY_VERSION, VERSIONS, options
from tests.vm.nfs.nfs_server import MEMORY, NfsServer, wait

NODE = "node-1"
DEFAULT = Nfs.model_fields["version"].default
WHOLE = os.environ.get("PULUMI_SLURM_WHOLE") == "1"
CAP_NET_RAW = struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0)
"""Of linux/capability.h: struct vfs_cap_data, second revision, effective."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NfsServer]:
    with NfsServer(tmp_path_factory.mktemp("nfs"), (NODE,), mebibytes=64) as started:
        started.export.chmod(0o755)
        yield started


@pytest.fixture(params=EVERY_VERSION)
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
    volume: Path, server: NfsServer, capfd: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    volume_probe.check(volume)
    advice = "advice: with NFS 4.2" if request.node.callspec.params["volume"] == "4.2" else ""
    said = capfd.readouterr().err
    assert advice in said if advice else "advice" not in said
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


def test_a_silent_server_is_waited_for_in_words(
    volume: Path, server: NfsServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(volume_probe, "PATIENCE_SECONDS", 1.0)
    sentence = "the jail's storage has not answered for 1 s"
    with ThreadPoolExecutor() as aside:
        server.hang(NODE)
        try:
            checking = aside.submit(volume_probe.check, volume)
            wait("it says so", lambda: sentence in capfd.readouterr().err, 30)
            assert not checking.done()
        finally:
            server.recover()
        checking.result(60)
    assert left(server) == []


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


@pytest.mark.parametrize("version", VERSIONS)
def test_a_time_that_a_program_sets_is_the_servers_and_every_nodes(
    server: NfsServer, tmp_path: Path, version: str
) -> None:
    """NFS 4.2 is left out: there the node keeps such a time to itself (docs/nfs.md)."""
    mounted = server.mount(NODE, tmp_path / "mount", options(version))
    old = 1_000_000_000
    try:
        # The server trusts a node with a file's times only after some files.
        for number in range(50):
            file = mounted / f"old-{number}"
            file.write_text("content")
            os.utime(file, (old, old))
        assert [(server.export / f"old-{number}").stat().st_mtime for number in range(50)] == [old] * 50
    finally:
        for file in mounted.glob("old-*"):
            file.unlink()
        server.unmount(mounted)


def test_version_4_is_the_newest_that_the_server_has(server: NfsServer, tmp_path: Path) -> None:
    mounted = server.mount(NODE, tmp_path / "mount", options("4", "nconnect=4"))
    try:
        shown = nfs_mounts.of(mount_table(), mounted)
        assert shown is not None
        assert (shown["vers"], shown["nconnect"]) == ("4.2", "4")
    finally:
        server.unmount(mounted)
    assert not os.path.ismount(mounted)


def stand_for_the_job(root: Path, prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Provide what the populate Job needs: the image's root, Slurm's commands and its variables."""
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin/srun").touch()
    monkeypatch.setattr(paths, "PREFIX", prefix)
    monkeypatch.setattr(populate, "wait_for_image", lambda: root)
    monkeypatch.setenv("SLURM_JAIL", json.dumps({"revision": "r1", "persistent": ["/home"], "tmpMib": 1, "shmMib": 1}))
    monkeypatch.setenv("SLURM_USERS", json.dumps([{"name": "alice", "sshPublicKeys": ["ssh-ed25519 A"]}]))


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root file system with what a storage could lose."""
    root = tmp_path / "image"
    for folder in ("bin", "usr/bin", "etc/skel", "home", "srv/data"):
        (root / folder).mkdir(parents=True)
    shutil.copy("/bin/dash", root / "bin/sh")
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    (root / "usr/bin/set-id").write_text("x")
    (root / "usr/bin/set-id").chmod(0o4755)
    os.link(root / "usr/bin/set-id", root / "usr/bin/twin")
    (root / "usr/bin/ping").write_text("x")
    os.setxattr(root / "usr/bin/ping", "security.capability", CAP_NET_RAW)
    (root / "srv/data/owned").write_text("x")
    os.chown(root / "srv/data/owned", 1234, 1235)
    stand_for_the_job(root, tmp_path / "slurm", monkeypatch)
    return root


@pytest.mark.usefixtures("image")
def test_populate_copies_a_root_whole_and_leaves_nothing_where_it_can_not(
    volume: Path, server: NfsServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(paths, "VOLUME", volume)
    server.export_with("rw,root_squash")
    with pytest.raises(NodeError, match="export it with no_root_squash"):
        populate.main()
    server.export_with("rw,no_root_squash")
    assert left(server) == []
    try:
        assert populate.main() == 0
        warning = "the storage keeps no extended attributes, such as file capabilities, of 1 files: usr/bin/ping"
        assert warning in capfd.readouterr().err
        # As the server has it, which the node's own cache does not answer for.
        root = server.export / "roots/r1"
        assert (root / "usr/bin/set-id").stat().st_mode & 0o7777 == 0o4755
        assert (root / "usr/bin/set-id").samefile(root / "usr/bin/twin")
        owned, home = (root / "srv/data/owned").stat(), (server.export / "persistent/home/alice").stat()
        assert (owned.st_uid, owned.st_gid, home.st_uid) == (1234, 1235, 1000)
        assert json.loads((server.export / "manifests/r1.json").read_text())["revision"] == "r1"
    finally:
        for made in left(server):
            shutil.rmtree(server.export / made)


@pytest.mark.timeout(1800)
@pytest.mark.skipif(not WHOLE, reason="takes minutes: PULUMI_SLURM_WHOLE=1")
def test_populate_copies_the_jail_images_own_root_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "image").mkdir()
    root = unpack_image(tmp_path / "image", "jail")
    stand_for_the_job(root, tmp_path / "slurm", monkeypatch)
    with (
        tempfile.TemporaryDirectory(dir=MEMORY) as memory,
        NfsServer(Path(memory) / "nfs", (NODE,), mebibytes=4096) as server,
    ):
        server.export.chmod(0o755)
        monkeypatch.setattr(paths, "VOLUME", server.mount(NODE, tmp_path / "mount", options(DEFAULT)))
        began = time.monotonic()
        assert populate.main() == 0
        took, image = time.monotonic() - began, inventory.look(root)
        print(f"{image.size >> 20} MiB in {took:.0f} s")
        # As the server has it. Populate adds the first users to the six files of accounts.
        others = inventory.missing(image, root, server.export / "roots/r1")
        assert {line.split()[0] for line in others} == {f"etc/{name}" for name in accounts.FILES}


def test_an_old_root_goes_but_for_what_a_process_holds_open_and_that_goes_later(
    volume: Path, server: NfsServer, capfd: pytest.CaptureFixture[str]
) -> None:
    for revision, hours in (("old", 3), ("new", 0)):
        (server.export / "roots" / revision / "lib").mkdir(parents=True)
        (server.export / "manifests").mkdir(exist_ok=True)
        marker = server.export / f"manifests/{revision}.json"
        marker.write_text("{}\n")
        then = marker.stat().st_mtime - hours * 3600
        os.utime(marker, (then, then))
    try:
        (volume / "roots/old/lib/libc.so").write_text("in use")
        with (volume / "roots/old/lib/libc.so").open() as held:
            old_roots.collect(volume, 1, (), {"new"})
            assert held.read() == "in use"
            said = capfd.readouterr().err
            assert [path.name for path in (server.export / "manifests").glob("*.json")] == ["new.json"]
            (kept,) = (server.export / "roots/.collecting-old").rglob(".nfs*")
        assert "a process on this node still has" in said
        assert f"{kept.name} open; trying again in 10 minutes" in said
        old_roots.collect(volume, 1, (), {"new"})
        assert [path.name for path in (server.export / "roots").iterdir()] == ["new"]
    finally:
        for made in left(server):
            shutil.rmtree(server.export / made)
