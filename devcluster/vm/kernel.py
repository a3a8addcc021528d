"""The guest's kernel: its source from the Debian archive, verified, and built once into the cache."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from devcluster.images.image_builder import apt_mirror
from devcluster.machine.bootstrap import cache_folder, run_logged
from devcluster.machine.progress import Step, StepFailed

CONFIG = Path(__file__).with_name("kernel.config")
PATCH = Path(__file__).with_name("kernel.patch")
BUILD_TOOLS = ("gcc", "make", "flex", "bison", "bc", "patch", "xz", "strip")
BUILD_BYTES = 5 << 30
"""Largest size of an unpacked and built tree."""
BUILD_SECONDS = 7200.0
"""Beside all tests, a build has only what they leave of the cores."""
DOWNLOAD_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Source:
    """A Debian package with the source of a kernel.

    Attributes:
        package: its name, and that of the archive in it.
        version: of the package.
        sha256: of the package's file.
    """

    package: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        """The package's file in an archive's pool."""
        return f"{self.package}_{self.version}_all.deb"


SOURCES = (
    # Until 7.0, User-Mode Linux had one processor, and so no cpuset controller.
    Source("linux-source-7.2", "7.2.13-1", "30a8c5fc63f9028a62e6d7b3f7f43bee67425dbce2a05fceba83f9b87c92083d"),
)
"""In order of preference: an archive drops a package when a newer one replaces it."""


def digest() -> str:
    """Return the hash of the inputs of the kernel's build."""
    return hashlib.sha256(repr(SOURCES).encode() + CONFIG.read_bytes() + PATCH.read_bytes()).hexdigest()[:16]


def program() -> Path:
    """Return the path of the built kernel in the cache, whether it exists or not."""
    return cache_folder() / "vm" / f"linux-{digest()}"


def is_built() -> bool:
    """Return whether the cache has the kernel."""
    return program().exists()


def build() -> Path:
    """Build the kernel if the cache has none, and return it. Several processes may call it at once.

    Raises:
        StepFailed: what is missing for it: a tool, room on the disk, the source; or the build failed.
    """
    with locked_cache():
        if not is_built():
            _require_tools()
            _require_room(cache_folder() / "vm")
            _build(program())
    return program()


@contextmanager
def locked_cache() -> Iterator[None]:
    """Hold the lock of what this package makes in the cache; another process waits for it."""
    path = cache_folder() / "vm" / ".lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _require_tools() -> None:
    if missing := [name for name in BUILD_TOOLS if shutil.which(name) is None]:
        raise StepFailed(f"the guest's kernel is built with {', '.join(missing)}, which this machine lacks: install it")


def _require_room(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < BUILD_BYTES:
        raise StepFailed(
            f"building the guest's kernel takes {BUILD_BYTES >> 30} GiB below {folder}, where {free / 2**30:.1f} are "
            "free: make room, or set PULUMI_SLURM_CACHE to a folder on a larger disk"
        )


def _build(target: Path) -> None:
    folder = target.with_name(".building")
    log = cache_folder() / "log" / "vm-kernel.log"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    run = functools.partial(run_logged, log=log, deadline_seconds=BUILD_SECONDS)
    try:
        package = _download(folder)
        with Step("the guest's kernel: unpacking its source"):
            run(["dpkg-deb", "-x", str(package), str(folder / "package")])
            (archive,) = (folder / "package/usr/src").glob("linux-source-*.tar.xz")
            run(["tar", "--strip-components=1", "-C", str(folder), "-xf", str(archive)], append=True)
            run(["patch", "-p1", "-i", str(PATCH)], folder=folder, append=True)
        with Step("the guest's kernel: building it, about ten minutes on two cores") as step:
            _make(folder, log, "x86_64_defconfig")
            merge = [str(folder / "scripts/kconfig/merge_config.sh"), "-m", ".config", str(CONFIG)]
            run(merge, folder=folder, append=True)
            _make(folder, log, "olddefconfig")
            _make_watched(folder, log, step)
            stripped = target.with_suffix(".part")
            run(["strip", "-o", str(stripped), str(folder / "linux")], append=True)
            stripped.rename(target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _download(folder: Path) -> Path:
    mirror, refusals = apt_mirror().rstrip("/"), []
    for source in SOURCES:
        target = folder / source.file
        try:
            with Step(f"the guest's kernel: downloading {source.file}"):
                sha256 = _fetch(f"{mirror}/pool/main/l/linux/{source.file}", target)
        except (httpx.HTTPError, OSError) as error:
            refusals.append(f"{source.file}: {error}")
            continue
        if sha256 == source.sha256:
            return target
        refusals.append(f"{source.file} has the SHA-256 {sha256}, not {source.sha256}")
    raise StepFailed(
        f"no source of the guest's kernel can be had from {mirror} ({'; '.join(refusals)}): put a package that it has, "
        "with its SHA-256, into SOURCES of devcluster/vm/kernel.py"
    )


def _fetch(url: str, target: Path) -> str:
    """Download a file and return its SHA-256."""
    content = hashlib.sha256()
    with httpx.stream("GET", url, timeout=DOWNLOAD_SECONDS, follow_redirects=True) as answer, target.open("wb") as file:
        answer.raise_for_status()
        for part in answer.iter_bytes():
            file.write(part)
            content.update(part)
    return content.hexdigest()


def _make_command(*words: str) -> list[str]:
    return ["make", "ARCH=um", f"-j{os.cpu_count()}", *words]


def _environment() -> dict[str, str]:
    # A developer's own flags must not change what is built.
    return {name: value for name, value in os.environ.items() if name in {"HOME", "PATH"}}


def _make(folder: Path, log: Path, *words: str) -> None:
    run_logged(
        _make_command(*words), log,
        folder=folder, environment=_environment(), append=True, deadline_seconds=BUILD_SECONDS,
    )  # fmt: skip


def _make_watched(folder: Path, log: Path, step: Step) -> None:
    """The long part: says how many files are compiled while it runs."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            _make_command("linux"),
            cwd=folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        try:
            while process.poll() is None:
                if step.elapsed_seconds > BUILD_SECONDS:
                    raise StepFailed(f"the guest's kernel was not built within {BUILD_SECONDS:.0f} s", log)
                try:
                    process.wait(5)
                except subprocess.TimeoutExpired:
                    compiled = log.read_text(errors="replace").count("\n  CC ")
                    step.heartbeat(f"{compiled} files compiled")
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    if process.returncode != 0:
        raise StepFailed("the guest's kernel could not be built", log)
