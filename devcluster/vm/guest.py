"""Boots the guest for one script and brings its results back."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from devcluster.machine.progress import StepFailed
from devcluster.vm import kernel, memory

PARTS = Path(__file__).parent
PROGRAMS = ("init", "first", "off")
"""Scripts of this package that the guest runs, in this order."""
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the kernel maps its memory from a file there
SCRATCH = Path("/scratch")
"""The guest's own disk, for what needs an ordinary file system that can carry an overlay."""
TIMED_OUT = 124
DISK_BYTES = 4 << 30
"""Free space for the guest's sparse disk, more than a run of tests/vm writes."""


@dataclass(frozen=True, slots=True)
class Size:
    """Size of a guest.

    Args:
        processors: of the guest.
        memory_mib: its memory, in MiB.
        disk_gib: its sparse disk, in GiB.
        mappings: that the largest of its processes takes on this machine: one for each 4 KiB at worst.
    """

    processors: int = 2
    memory_mib: int = 4096
    disk_gib: int = 16
    mappings: int = 65_530


@contextmanager
def shared_folder() -> Iterator[Path]:
    """A folder whose content the machine and a guest share, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="pulumi-slurm-guest-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def run(
    command: Sequence[str],
    folder: Path,
    *,
    directory: Path,
    environment: Mapping[str, str],
    seconds: float,
    size: Size | None = None,
) -> int:
    """Run a command as root in a guest of its own, with its output on this process's own.

    Args:
        command: words; paths are the machine's.
        folder: one of shared_folder(): what is written there stays.
        directory: where the command starts.
        environment: its variables, besides PATH, HOME, TMPDIR and PULUMI_SLURM_STATE.
        seconds: after which the guest ends, whatever it does.
        size: of the guest.

    Returns:
        The command's exit status; 124 when it did not end in time.

    Raises:
        StepFailed: the machine has no room for the guest, or the guest ended without running the command.
    """
    size = size or Size()
    _require_room(size, folder)
    memory.allow_mappings(size.mappings)
    disk = folder / "disk.img"
    status = folder / "status"
    status.unlink(missing_ok=True)
    try:
        _make_disk(disk, size.disk_gib)
        _write_script(folder, command, directory, environment)
        ended = _boot(folder, disk, size, seconds)
    finally:
        disk.unlink(missing_ok=True)
    if not ended:
        return TIMED_OUT
    if not status.exists():
        raise StepFailed("the guest ended before its command did: its last lines are above")
    return int(status.read_text())


def has_room(guests: int) -> bool:
    """Return whether the machine has memory and disk for so many guests at once."""
    with shared_folder() as folder:
        try:
            _require_room(Size(memory_mib=guests * Size().memory_mib), folder)
        except StepFailed:
            return False
        return shutil.disk_usage(folder).free >= guests * DISK_BYTES


def _require_room(size: Size, folder: Path) -> None:
    wanted = size.memory_mib << 20
    # The kernel's memory is a file without a name, of tmpfs.
    place = memory_folder()
    advice = "make room there (a container needs a larger /dev/shm)"
    _require("memory", wanted, memory.Bound(f"at {place}", shutil.disk_usage(place).free, advice))
    for bound in memory.bounds():
        _require("memory", wanted, bound)
    _require("disk", DISK_BYTES, memory.Bound(f"at {folder}", shutil.disk_usage(folder).free, "make room there"))


def _require(what: str, wanted: int, bound: memory.Bound) -> None:
    if bound.size < wanted:
        raise StepFailed(
            f"the guest takes {wanted / 2**30:.0f} GiB of {what} {bound.where}, and {bound.size / 2**30:.1f} are free: "
            f"{bound.advice}"
        )


def memory_folder() -> Path:
    """Return the folder in which the kernel makes the guest's memory file: /dev/shm if there is one, else /tmp."""
    return SHARED_MEMORY if SHARED_MEMORY.is_dir() else Path("/tmp")  # noqa: S108 - as User-Mode Linux does


def _make_disk(disk: Path, gib: int) -> None:
    with disk.open("wb") as file:
        file.truncate(gib << 30)
    made = subprocess.run(
        ["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1", str(disk)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if made.returncode != 0:
        raise StepFailed(f"no disk for the guest: {made.stderr.strip()}")


def _write_script(folder: Path, command: Sequence[str], directory: Path, environment: Mapping[str, str]) -> None:
    variables = {
        "PATH": os.environ["PATH"], "HOME": "/root", "LANG": "C.UTF-8",
        "TMPDIR": str(SCRATCH / "tmp"), "PULUMI_SLURM_STATE": str(SCRATCH / "state"), **environment,
    }  # fmt: skip
    lines = [
        "#!/bin/sh",
        f"cd {shlex.quote(str(directory))} || exit 1",
        shlex.join(["exec", "env", "-i", *(f"{name}={value}" for name, value in variables.items()), *command]),
    ]
    (folder / "script").write_text("\n".join(lines) + "\n")
    for name in PROGRAMS:
        shutil.copy(PARTS / name, folder / name)
    for name in ("script", *PROGRAMS):
        (folder / name).chmod(0o755)


def _boot(folder: Path, disk: Path, size: Size, seconds: float) -> bool:
    """Returns whether the guest ended by itself."""
    command = [
        # The guest ends with this process, however that ends.
        *("setpriv", "--pdeathsig", "KILL"),
        str(kernel.program()), f"mem={size.memory_mib}M", f"ncpus={size.processors}", "seccomp=on",
        f"ubda={disk}", "hostfs=/", "root=/dev/root", "rootfstype=hostfs", "ro", f"init={folder}/init",
        f"vmfolder={folder}", "con=null", "con0=fd:0,fd:1", "quiet",
    ]  # fmt: skip
    # A session of its own: the kernel is several processes, and all of them end with it.
    guest = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        guest.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    finally:
        with suppress(ProcessLookupError):
            os.killpg(guest.pid, signal.SIGKILL)
        guest.wait()
    return True
