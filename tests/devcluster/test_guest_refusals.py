"""A machine that cannot run the guest is told what is missing, and what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from devcluster.images import images
from devcluster.machine.bootstrap import CHECKOUT
from devcluster.machine.progress import StepFailed
from devcluster.vm import guest, kernel
from devcluster.vm import tests as vm_tests


def test_a_guest_that_has_no_room_says_where_and_how_much(tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match="the guest takes 1048576 GiB of memory at /dev/shm"):
        guest.run(
            ["true"], tmp_path, directory=tmp_path, environment={}, seconds=1, size=guest.Size(memory_mib=1 << 30)
        )


def test_a_guest_whose_disk_has_no_room_says_where_and_how_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest, "DISK_BYTES", 1 << 60)
    with pytest.raises(StepFailed, match=rf"the guest takes 1073741824 GiB of disk at {tmp_path}, and .* make room"):
        guest.run(["true"], tmp_path, directory=tmp_path, environment={}, seconds=1)
    assert not list(tmp_path.iterdir()), "nothing was made of it"


def test_a_guest_that_cannot_have_its_disk_says_what_mkfs_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest, "DISK_BYTES", 0)
    with pytest.raises(StepFailed, match=r"no disk for the guest: .*mkfs"):
        guest.run(["true"], tmp_path, directory=tmp_path, environment={}, seconds=1, size=guest.Size(disk_gib=0))
    assert not list(tmp_path.iterdir())


def test_a_kernel_that_cannot_be_built_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_SLURM_CACHE", str(tmp_path))
    with monkeypatch.context() as without:
        without.setenv("PATH", "/nowhere")
        with pytest.raises(
            StepFailed, match="built with gcc, make, flex, bison, bc, patch, xz, strip, which this machine lacks"
        ):
            kernel.build()
    with monkeypatch.context() as without:
        without.setattr(kernel, "BUILD_BYTES", 1 << 60)
        with pytest.raises(StepFailed, match="set PULUMI_SLURM_CACHE to a folder on a larger disk"):
            kernel.build()
    monkeypatch.setattr(kernel, "SOURCES", (kernel.Source("linux-source-0.1", "0.1-1", "0" * 64),))
    with pytest.raises(StepFailed, match=r"no source of the guest's kernel can be had from .*linux-source-0.1_0.1-1"):
        kernel.build()


def test_every_root_that_tests_in_the_guest_make_is_in_the_cache_before_it_starts() -> None:
    files = (CHECKOUT / vm_tests.FOLDER).rglob("*.py")
    made = {name for file in files for name in re.findall(r'roots\.make\("(\w+)"', file.read_text())}
    assert made == set(vm_tests.ROOTS)


def test_roots_that_cannot_be_made_are_told_before_a_guest_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULUMI_SLURM_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(images, "build_all", lambda _: None)
    with pytest.raises(StepFailed, match=r"the roots of the tests could not be made: .*mmdebstrap"):
        vm_tests.prepare()
