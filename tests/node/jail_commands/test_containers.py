"""Steps in containers: what crun is told, and what stays behind."""

from __future__ import annotations

import errno
import json
import os
import platform
import struct
from pathlib import Path

import pytest
from jail_commands import container_plan, container_step, image
from jail_commands.container_plan import Step
from jail_commands.running import Refused, outcome
from slurm_node.slurm import container_leftovers

from components.slurm.conf import slurm_conf
from contract import paths
from devcluster.machine.bootstrap import CHECKOUT

BUNDLE = {
    "ociVersion": "1.2.1",
    "process": {
        "user": {"uid": 999, "gid": 998, "additionalGids": [4]},
        "env": ["PATH=/image/bin", "COLOUR=blue"],
        "cwd": "/image",
        "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1, "soft": 1}],
    },
    "root": {"path": "rootfs"},
    "mounts": [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/dev/shm", "type": "tmpfs", "source": "shm"},
        {"destination": "/models", "type": "bind", "source": "/srv/models", "options": ["rbind"]},
        {"destination": "/etc/resolv.conf", "type": "bind", "source": "/elsewhere"},
    ],
    "linux": {
        "namespaces": [{"type": "cgroup"}, {"type": "pid"}, {"type": "user"}],
        "resources": {"memory": {"limit": 1}},
        "seccomp": {"defaultAction": "SCMP_ACT_ERRNO"},
    },
}


def step(*command: str, environment: dict[str, str] | None = None, folder: str = "/home/dev") -> Step:
    return Step(1000, 1001, command or ("ls",), environment or {}, folder, ("/home", "/scratch"))


def made(wanted: Step, in_image: bool = True):
    return container_plan.configuration(BUNDLE, "/x/rootfs", wanted, lambda _: in_image)


def test_no_namespace_is_asked_for_that_a_job_is_refused() -> None:
    linux = made(step())["linux"]
    assert [each["type"] for each in linux["namespaces"]] == ["user", "mount"]
    assert linux.keys() == {"namespaces", "uidMappings", "gidMappings"}


def test_the_images_user_is_the_jobs_user_outside() -> None:
    linux = made(step())["linux"]
    assert linux["uidMappings"] == [{"containerID": 999, "hostID": 1000, "size": 1}]
    assert linux["gidMappings"] == [{"containerID": 998, "hostID": 1001, "size": 1}]
    assert made(step())["process"]["user"] == {"uid": 999, "gid": 998}


def test_the_jobs_proc_and_devices_are_shown_not_fresh_ones() -> None:
    mounts = {each["destination"]: each for each in made(step())["mounts"]}
    for path in ("/proc", "/dev", "/sys", "/tmp", "/home", "/scratch", "/etc/resolv.conf"):
        assert (mounts[path]["type"], mounts[path]["source"]) == ("bind", path)
    assert "ro" in mounts["/sys"]["options"]
    assert "/dev/shm" not in mounts
    assert mounts["/models"]["source"] == "/srv/models"


def test_the_jobs_limits_stay_its_own() -> None:
    assert "rlimits" not in made(step())["process"]


def test_the_working_folder_is_the_jobs_where_the_container_has_it() -> None:
    assert made(step(folder="/scratch/x"))["process"]["cwd"] == "/scratch/x"
    assert made(step(folder="/tmp"))["process"]["cwd"] == "/tmp"
    assert made(step(folder="/opt"))["process"]["cwd"] == "/image"


def test_the_jobs_variables_win_but_for_the_images_places() -> None:
    environment = {"PATH": "/usr/bin", "COLOUR": "green", "X": "a=b"}
    assert made(step(environment=environment))["process"]["env"][-3:] == ["PATH=/image/bin", "COLOUR=green", "X=a=b"]
    assert made(step())["process"]["env"][0] == "UCX_POSIX_USE_PROC_LINK=n"
    of_job = made(step(environment={"UCX_POSIX_USE_PROC_LINK": "y"}))["process"]["env"]
    assert [each for each in of_job if each.startswith("UCX")] == ["UCX_POSIX_USE_PROC_LINK=y"]


@pytest.mark.parametrize(
    ("word", "in_image", "runs"),
    [
        ("/usr/bin/python3", True, "/usr/bin/python3"),
        ("/usr/bin/python3", False, "python3"),
        ("python3", False, "python3"),
        ("/home/dev/mine", False, "/home/dev/mine"),
        ("/var/spool/slurmd/job00007/slurm_script", False, "/var/spool/slurmd/job00007/slurm_script"),
    ],
)
def test_a_command_that_slurm_found_in_the_jail_is_looked_up_in_the_image(word, in_image, runs) -> None:
    assert made(step(word, "-x"), in_image)["process"]["args"] == [runs, "-x"]


def test_peoples_folders_are_what_is_mounted_besides_the_nodes_own() -> None:
    points = (
        "/",
        "/home",
        "/root",
        "/srv",
        "/\x0c\x0c",
        "/opt/slurm",
        "/dev/shm",
        "/proc/sys",
        "/run/node",
        "/my\\040data",
        "/tmp",
    )
    mountinfo = "".join(f"1 2 0:1 / {point} rw - ext4 x rw\n" for point in (*points, "/etc/hosts", "/var/spool/slurmd"))
    assert container_plan.data_folders(mountinfo) == ["/\x0c\x0c", "/home", "/my data", "/srv"]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("docker://ubuntu:24.04", "ubuntu-24.04"),
        ("docker://nvcr.io/nvidia/pytorch:24.01-py3", "pytorch-24.01-py3"),
        ("docker://x/y@sha256:abc", "y-sha256-abc"),
        ("docker-archive:tiny.tar", "tiny"),
        ("oci-archive:/home/a/model.tar:1", "model-1"),
    ],
)
def test_a_bundle_is_named_after_its_source(source: str, name: str) -> None:
    assert image.check_name(image.name_of(source)) == name


def test_a_ranks_connection_is_where_crun_leaves_it_open(monkeypatch) -> None:
    moved: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "dup2", lambda old, new: moved.append((old, new)))
    assert container_step.keep_pmi({"PMI_FD": "23"}) == {"PMI_FD": "3"}
    assert moved == [(23, 3)]
    assert container_step.keep_pmi({}) == container_step.keep_pmi({"PMI_FD": "x"}) == {}
    monkeypatch.undo()
    assert container_step.keep_pmi({"PMI_FD": "987654"}) == {}, "of another job, say"


@pytest.mark.parametrize("source", ["ubuntu:24.04", "http://x/y.tar", "/tmp/x.tar"])
def test_a_source_of_no_kind_is_refused_with_one_that_is(source: str) -> None:
    with pytest.raises(Refused, match="where does it come from"):
        image.name_of(source)


@pytest.mark.parametrize("name", ["../x", "", ".hidden", "a/b"])
def test_a_name_that_is_a_path_is_refused(name: str) -> None:
    with pytest.raises(Refused, match="no name for an image"):
        image.check_name(name)


def test_a_failed_pull_leaves_nothing_and_an_older_image_as_it_was(tmp_path, monkeypatch, capfd) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    there = tmp_path / image.OWN / "gone"
    there.mkdir(parents=True)
    with pytest.raises(Refused, match="nothing was kept"):
        image.command(["pull", "--replace", f"docker-archive:{tmp_path}/gone.tar"])
    assert [each.name for each in there.parent.iterdir()] == ["gone"]


@pytest.fixture
def pull(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Pulls, without skopeo and umoci: each bundle's root file system has its source in a file."""

    def show(program: str, *words: str) -> None:
        if program == "skopeo":
            layout(Path(words[-1].removeprefix("oci:").removesuffix(":image")), None)
            (tmp_path / "taken").write_text(words[-2])
        else:
            Path(words[-1], "rootfs").mkdir(parents=True)
            Path(words[-1], "rootfs/is").write_text((tmp_path / "taken").read_text())

    def run(*words: str) -> str:
        image.command(["pull", *words])
        return Path(capsys.readouterr().out.strip(), "rootfs/is").read_text()

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(image, "show", show)
    return run


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("docker://registry-a.example/team/tools:3", "docker://registry-b.example/other/tools:3"),
        ("docker-archive:/home/a/model.tar", "oci-archive:/srv/b/model.tar"),
    ],
)
def test_another_image_of_the_same_last_name_is_never_handed_out(pull, one: str, other: str) -> None:
    assert pull(one) == pull(one) == one
    with pytest.raises(Refused, match=f"is {one}, and you ask for {other}: .*--name.*--replace"):
        pull(other)
    assert pull(other, "--name", "other") == other
    assert pull(other, "--replace") == other
    with pytest.raises(Refused, match=f"is {other}, and you ask for {one}"):
        pull(one)


def test_an_archive_is_known_by_where_it_lies(pull, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pull("docker-archive:model.tar")
    assert pull(f"docker-archive:{tmp_path}/model.tar") == "docker-archive:model.tar"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(Refused, match=f"is docker-archive:{tmp_path}/model.tar, and you ask for"):
        pull("docker-archive:model.tar")


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files capabilities")
def test_no_program_of_an_image_gives_rights_to_who_runs_it_outside_of_a_container(tmp_path, monkeypatch) -> None:
    outside = tmp_path / "outside"
    outside.touch()
    outside.chmod(0o6755)

    def unpack(program: str, *words: str) -> None:
        """As umoci unpacks as root."""
        if program == "skopeo":
            layout(Path(words[-1].removeprefix("oci:").removesuffix(":image")), None)
            return
        hidden = Path(words[-1], "rootfs/opt/hidden")
        hidden.mkdir(parents=True)
        for name in ("su", "ping"):
            (hidden / name).touch()
        (hidden / "su").chmod(0o6755)
        (hidden / "linked").hardlink_to(hidden / "su")
        (hidden / "led").symlink_to(outside)
        # CAP_NET_RAW, permitted and effective (struct vfs_cap_data, version 2).
        os.setxattr(hidden / "ping", "security.capability", struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0))
        hidden.chmod(0o3055)

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(image, "show", unpack)
    image.command(["pull", "oci-archive:/x.tar"])
    hidden = tmp_path / image.OWN / "x/rootfs/opt/hidden"
    assert [(hidden / name).stat().st_mode & 0o7777 for name in ("su", "linked", "ping")] == [0o755, 0o755, 0o644]
    assert "security.capability" not in os.listxattr(hidden / "ping")
    assert outside.stat().st_mode & 0o7777 == 0o6755, "no link is followed"


def test_an_image_that_was_pulled_before_sources_were_noted_is_still_taken(pull, tmp_path: Path) -> None:
    pull("docker://ubuntu:24.04")
    (tmp_path / image.OWN / "ubuntu-24.04" / image.NOTE).unlink()
    assert pull("docker://ubuntu:24.04") == "docker://ubuntu:24.04"


def layout(folder: Path, architecture: str | None) -> Path:
    """An image as skopeo writes it, so far as it is read."""
    config = {"os": "linux", **({"architecture": architecture} if architecture is not None else {})}
    (folder / "blobs/sha256").mkdir(parents=True)
    (folder / "blobs/sha256/c").write_text(json.dumps(config))
    (folder / "blobs/sha256/m").write_text(json.dumps({"config": {"digest": "sha256:c"}}))
    (folder / "index.json").write_text(json.dumps({"manifests": [{"digest": "sha256:m"}]}))
    return folder


@pytest.mark.parametrize(("machine", "architecture"), [("x86_64", "amd64"), ("aarch64", "arm64"), ("x86_64", None)])
def test_an_image_for_this_machine_is_taken(
    tmp_path: Path, monkeypatch, machine: str, architecture: str | None
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    image.check_architecture(layout(tmp_path, architecture), "oci-archive:x.tar")


def test_an_image_for_other_machines_is_refused_before_it_is_unpacked(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(image, "show", lambda *words: layout(Path(words[-1].split(":")[1]), "arm64"))
    with pytest.raises(Refused, match=r"oci-archive:x\.tar is for arm64, and this machine is amd64: nothing was kept"):
        image.command(["pull", "oci-archive:x.tar"])
    assert list((tmp_path / image.OWN).iterdir()) == []


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(image, "show", lambda *words: None)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "rootfs/proc")

    monkeypatch.setattr(image, "check_architecture", full)
    assert outcome("slurm-image", image.command, ["pull", "oci-archive:x.tar"]) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert list((tmp_path / image.OWN).iterdir()) == []


def test_empty_folders_of_steps_are_swept_and_no_others(tmp_path: Path) -> None:
    old, young, full = (tmp_path / ".slurm-1000" / f"oci-job{number}-0" for number in range(3))
    for folder in (old, young, full):
        folder.mkdir(parents=True)
    (full / "x").touch()
    for folder in (old, full):
        os.utime(folder, (1000, 1000))
    container_leftovers.sweep(tmp_path, young.stat().st_mtime)
    assert sorted(each.name for each in (tmp_path / ".slurm-1000").iterdir()) == ["oci-job1-0", "oci-job2-0"]


def test_what_a_client_had_slurmd_write_is_swept(tmp_path: Path) -> None:
    (tmp_path / ".slurm-1000").mkdir()
    (tmp_path / "sent").write_text("by srun --bcast")
    os.utime(tmp_path / "sent", (1 << 40, 1 << 40))
    (tmp_path / "sent_libs").mkdir()
    (tmp_path / "sent_libs/x.so").touch()
    (tmp_path / "link").symlink_to(tmp_path / ".slurm-1000")
    written = (tmp_path / "link").lstat().st_ctime
    container_leftovers.sweep(tmp_path, written)
    assert (tmp_path / "sent").exists()
    container_leftovers.sweep(tmp_path, written + container_leftovers.KEPT_SECONDS + 1)
    assert [each.name for each in tmp_path.iterdir()] == [".slurm-1000"]


def test_every_place_is_named_alike() -> None:
    assert f"exec {paths.CONTAINER_STEP} '%b' '%e' '%Z' " in slurm_conf.oci_conf()
    stub = CHECKOUT / "images/slurm/rootfs" / paths.CONTAINER_STEP.lstrip("/")
    assert stub.stat().st_mode & 0o111
    assert "python3 -IBc" in stub.read_text()
