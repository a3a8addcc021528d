"""Submounts of a node, with real mounts: two nodes on one shared root, and what people may have put in the way."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest
from slurm_node.jail import tree_plan
from slurm_node.jail.tree_plan import Kind
from slurm_node.pod.settings import Jail, Submount

from tests.node import own_mounts

real = pytest.mark.skipif(os.geteuid() != 0, reason="makes mounts")

# In mount namespaces of its own: one shared root, and a tree of it for each of two nodes with what they mount.
BEGIN = textwrap.dedent("""
    import os, sys
    from pathlib import Path
    from slurm_node.jail import tree, tree_plan
    from slurm_node.pod.log import NodeError
    from slurm_node.pod.settings import Jail, Submount
    from slurm_node.pod.system import MountFlag, is_mount_point, mount
    from slurm_node.jail.tree_plan import Kind, Mount

    work = Path(sys.argv[1])
    mount("none", Path("/"), flags=MountFlag.REC | MountFlag.PRIVATE)
    root = work / "root"
    for folder in ("etc", "srv", "home"):
        (root / folder).mkdir(parents=True)
    nodes = []
    for number in range(2):
        node = work / f"node{number}"
        (work / f"disk{number}").mkdir()
        node.mkdir()
        mount(str(root), node, flags=MountFlag.BIND)
        nodes.append(node)

    def build(number, *submounts):
        for wanted in tree_plan.plan(Jail("r", submounts=submounts))[-len(submounts):]:
            tree.make_mount(wanted, nodes[number])

    def local(number, path="/scratch"):
        return Submount(path, str(work / f"disk{number}"), everybodys=True)

    def refusal(number, *submounts):
        try:
            build(number, *submounts)
        except NodeError as error:
            return str(error)
        return "mounted"
""")


def run(tmp_path: Path, script: str) -> list[str]:
    """Lines that a script on those nodes prints."""
    return own_mounts.run(tmp_path, BEGIN + textwrap.dedent(script))[0]


def test_submounts_are_the_last_of_the_plan_and_lack_devices_and_set_id_programs() -> None:
    jail = Jail(
        "r",
        submounts=(
            Submount("/scratch", "/run/submounts/0", everybodys=True),
            Submount("/datasets", "/run/submounts/1", read_only=True),
            Submount("/mnt/memory", memory_mib=64),
        ),
    )
    assert [(each.kind, each.source, each.target, each.everybodys) for each in tree_plan.plan(jail)[-3:]] == [
        (Kind.VOLUME, "/run/submounts/0", "/scratch", True),
        (Kind.READ_ONLY_VOLUME, "/run/submounts/1", "/datasets", False),
        (Kind.MEMORY, "submount", "/mnt/memory", False),
    ]
    assert tree_plan.plan(jail)[-1].options == "mode=1777,size=64m"


@real
def test_each_node_has_its_own_files_and_the_shared_root_an_empty_folder(tmp_path: Path) -> None:
    said = run(
        tmp_path,
        """
        for number in range(2):
            build(number, local(number), Submount("/mnt/fast/memory", memory_mib=1))
            (nodes[number] / "scratch/mine").write_text(str(number))
            (nodes[number] / "mnt/fast/memory/mine").write_text(str(number))
        print(*((node / "scratch/mine").read_text() + (node / "mnt/fast/memory/mine").read_text() for node in nodes))
        print(*(oct((node / "scratch").stat().st_mode & 0o7777) for node in nodes))
        print(*sorted(str(path.relative_to(root)) for path in root.rglob("*")))
        print(oct((root / "scratch").stat().st_mode & 0o7777), (root / "scratch").owner())
        try:
            (nodes[0] / "mnt/fast/memory/much").write_bytes(bytes(2 << 20))
        except OSError as error:
            print(error.strerror)
        """,
    )
    assert said == [
        "00 11",
        "0o1777 0o1777",
        "etc home mnt mnt/fast mnt/fast/memory scratch srv",
        "0o755 root",
        "No space left on device",
    ]


@real
def test_volumes_run_no_set_id_programs_and_read_only_ones_take_nothing(tmp_path: Path) -> None:
    said = run(
        tmp_path,
        """
        build(0, Submount("/datasets", str(work / "disk0"), read_only=True), local(1))
        for name in ("datasets", "scratch"):
            flags = os.statvfs(nodes[0] / name).f_flag
            print(name, *(bool(flags & each) for each in (os.ST_NOSUID, os.ST_NODEV, os.ST_RDONLY)))
        print(oct((work / "disk0").stat().st_mode & 0o7777))
        """,
    )
    assert said == ["datasets True True True", "scratch True True False", "0o755"]


@real
@pytest.mark.parametrize(
    ("trick", "sentence"),
    [
        ("(root / 'scratch').symlink_to(work / 'keys')", "is a symbolic link"),
        ("(root / 'scratch').symlink_to('../../../../../../etc')", "is a symbolic link"),
        ("(root / 'scratch').symlink_to('/srv')", "is a symbolic link"),
        ("(root / 'scratch').symlink_to('nowhere')", "is a symbolic link"),
        ("(root / 'scratch').write_text('x')", "is a file of the wrong kind"),
    ],
)
def test_what_stands_in_a_mount_points_place_is_refused_in_words(tmp_path: Path, trick: str, sentence: str) -> None:
    script = f"""
        (work / "keys").mkdir()
        {trick}
        print(refusal(0, local(0)))
        print(is_mount_point(work / "keys"), is_mount_point(root / "srv"), is_mount_point(nodes[0] / "srv"))
    """
    said = run(tmp_path, script)
    assert said[0].startswith("/scratch, or ")
    assert sentence in said[0]
    assert said[1] == "False False False"


@real
@pytest.mark.parametrize("target", ["work / 'keys'", "'/srv'", "'../srv'"])
def test_a_link_in_the_place_of_a_parent_is_refused_in_words(tmp_path: Path, target: str) -> None:
    script = f"""
        (work / "keys").mkdir()
        (root / "mnt").symlink_to({target})
        print(refusal(0, local(0, "/mnt/scratch")))
        print(*(list(folder.iterdir()) for folder in (work / "keys", root / "srv")))
    """
    assert run(tmp_path, script)[0].startswith("/mnt/scratch, or a folder above it, is a symbolic link")
    assert run_lists(tmp_path) == []


def run_lists(tmp_path: Path) -> list[Path]:
    """Return what was made outside of the mount point's own place."""
    return [*(tmp_path / "keys").iterdir(), *(tmp_path / "root/srv").iterdir()]


@real
@pytest.mark.parametrize(
    ("trick", "wanted"),
    [
        ("(root / 'home').rmdir(); (root / 'home').symlink_to(work / 'keys')", 'Mount(Kind.BIND, str(work), "/home")'),
        ("(root / 'run').symlink_to(work / 'keys')", 'Mount(Kind.MEMORY, "run", "/run", "size=1m")'),
        (
            "(root / 'etc').rmdir(); (root / 'etc').symlink_to(work / 'keys')",
            'Mount(Kind.FILE, "/etc/hosts", "/etc/hosts")',
        ),
        ("(root / 'etc/hosts').symlink_to(work / 'hosts')", 'Mount(Kind.FILE, "/etc/hosts", "/etc/hosts")'),
    ],
    ids=["persistent path", "node's own folder", "folder of a file", "file"],
)
def test_no_mount_of_the_tree_follows_a_link(tmp_path: Path, trick: str, wanted: str) -> None:
    script = f"""
        (work / "keys").mkdir()
        {trick}
        try:
            tree.make_mount({wanted}, nodes[0])
        except NodeError as error:
            print(error)
        print(is_mount_point(work / "keys"), *(work / "keys").iterdir(), (work / "hosts").exists())
    """
    said = run(tmp_path, script)
    assert "is a symbolic link" in said[0]
    assert said[1] == "False False"
