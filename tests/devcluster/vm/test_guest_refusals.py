"""A machine that cannot run the guest is told what is missing, and what to do."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from devcluster.images import images
from devcluster.machine.bootstrap import CHECKOUT
from devcluster.machine.progress import StepFailed
from devcluster.vm import guest, kernel, memory
from devcluster.vm import tests as vm_tests


def boot(folder: Path, size: guest.Size | None = None) -> None:
    guest.run(["true"], folder, directory=folder, environment={}, seconds=1, size=size)


def test_a_guest_that_has_no_room_says_where_and_how_much(tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match="the guest takes 1048576 GiB of memory at /dev/shm"):
        boot(tmp_path, guest.Size(memory_mib=1 << 30))


def test_a_guest_on_a_machine_without_the_memory_says_how_much_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:       16777216 kB\nMemFree:          524288 kB\nMemAvailable:    1048576 kB\n")
    monkeypatch.setattr(memory, "MEMINFO", meminfo)
    monkeypatch.setattr(guest, "SHARED_MEMORY", tmp_path)
    with pytest.raises(
        StepFailed, match=r"takes 4 GiB of memory of this machine, and 1\.0 are free: end other programs"
    ):
        boot(tmp_path)


@pytest.mark.parametrize(
    ("membership", "limited", "name"),
    [
        ("5:memory:/box/inner\n4:cpu:/\n0::/\n", "memory/box", "memory.limit_in_bytes"),
        ("5:cpu,memory:/not/seen/here\n", "memory", "memory.limit_in_bytes"),
        ("0::/box/inner\n", "box", "memory.max"),
    ],
    ids=["version 1", "version 1, in a container", "version 2"],
)
def test_a_guest_in_a_control_group_without_the_memory_names_the_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, membership: str, limited: str, name: str
) -> None:
    group = tmp_path / limited
    (group / "inner").mkdir(parents=True)
    (group / name).write_text(f"{1 << 30}\n")
    (group / "inner/memory.max").write_text("max\n")
    (tmp_path / "own").write_text(membership)
    monkeypatch.setattr(memory, "MEMINFO", Path("/dev/null"))
    monkeypatch.setattr(memory, "OWN_GROUPS", tmp_path / "own")
    monkeypatch.setattr(memory, "HIERARCHIES", tmp_path)
    monkeypatch.setattr(guest, "SHARED_MEMORY", tmp_path)
    with pytest.raises(StepFailed, match=f"of memory of the control group {group}, and 1.0 are free: raise its limit"):
        boot(tmp_path, guest.Size(memory_mib=2048))


def test_a_guest_whose_disk_has_no_room_says_where_and_how_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest, "DISK_BYTES", 1 << 60)
    with pytest.raises(StepFailed, match=rf"the guest takes 1073741824 GiB of disk at {tmp_path}, and .* make room"):
        boot(tmp_path)
    assert not list(tmp_path.iterdir()), "nothing was made of it"


def test_a_guest_raises_the_bound_of_mappings_that_its_processes_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    setting = tmp_path / "max_map_count"
    setting.write_text("65530\n")
    monkeypatch.setattr(memory, "MOST_MAPPINGS", setting)
    memory.allow_mappings(100_000)
    assert setting.read_text() == "100000"
    memory.allow_mappings(65_530)
    assert setting.read_text() == "100000"
    assert "100000 from now on (it was 65530)" in capsys.readouterr().err


def test_a_guest_whose_bound_of_mappings_cannot_be_raised_says_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "MOST_MAPPINGS", Path("/proc/sys/kernel/ngroups_max"))  # Root, too, only reads it.
    monkeypatch.setattr(guest, "DISK_BYTES", 0)
    with pytest.raises(StepFailed, match=r"is 65536 \(Permission denied\): set it by .*max_map_count=70000"):
        boot(tmp_path, guest.Size(mappings=70_000))


def test_a_guest_that_cannot_have_its_disk_says_what_mkfs_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest, "DISK_BYTES", 0)
    with pytest.raises(StepFailed, match=r"no disk for the guest: .*mkfs"):
        boot(tmp_path, guest.Size(disk_gib=0))
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


class Mirror(BaseHTTPRequestHandler):
    """An archive whose package is another than the one that was pinned."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"another package")

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing of it."""


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Mirror) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/debian"
        monkeypatch.setattr(kernel, "apt_mirror", lambda: url)
        yield url
        server.shutdown()


def test_a_source_of_the_kernel_that_is_not_the_pinned_one_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mirror: str
) -> None:
    monkeypatch.setenv("PULUMI_SLURM_CACHE", str(tmp_path))
    monkeypatch.setattr(kernel, "BUILD_BYTES", 0)
    monkeypatch.setattr(kernel, "BUILD_TOOLS", ())
    monkeypatch.setattr(kernel, "run_logged", lambda *_, **__: pytest.fail("it was unpacked"))
    monkeypatch.setattr(kernel, "SOURCES", (kernel.Source("linux-source-0.1", "0.1-1", "0" * 64),))
    found = hashlib.sha256(b"another package").hexdigest()
    said = f"can be had from {mirror} .*linux-source-0.1_0.1-1_all.deb has the SHA-256 {found}, not {'0' * 64}"
    with pytest.raises(StepFailed, match=said):
        kernel.build()
    assert [path.name for path in (tmp_path / "vm").iterdir()] == [".lock"], "nothing of it is kept"


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
