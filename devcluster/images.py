"""Builds the container images, with no registry needed, and only when their inputs changed.

An image's tag is a hash of what goes into its build, not of what comes out: package archives move daily, and a second
machine, or a second day, must not see another tag for the same sources.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
IMAGES = REPOSITORY / "images"
SUITE_FILE = IMAGES / "suite"
"""The one place that names the Debian suite; it decides Slurm's version."""
NAMES = ("slurm", "jail", "operator")
REFERENCE_PREFIX = "localhost/pulumi-slurm"
REGISTRY_BASE = "docker.io/library/debian:{suite}-slim"
MMDEBSTRAP_OPTIONS = (
    "--variant=minbase",
    # A testing suite's mirror may be a snapshot whose release file has expired.
    '--aptopt=Acquire::Check-Valid-Until "false"',
    # mmdebstrap leaves the building machine's own there.
    '--customize-hook=rm -f "$1/etc/resolv.conf" "$1/etc/hostname"',
)
WHEEL_PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "any")
PROGRESS_SECONDS = 10.0
REGISTRY_SECONDS = 10.0
BUILD_SECONDS = 1800.0
ARCHIVES_KEPT = 3


class ImageError(Exception):
    """An image could not be built or pushed; the text names the log."""


@dataclass(frozen=True, slots=True)
class Image:
    """A built image: how Kubernetes names it, and the docker-archive to import."""

    reference: str
    archive: Path


@dataclass(frozen=True, slots=True)
class Recipe:
    """What one image is built from.

    Attributes:
        name: folder under images/.
        containerfile: its text.
        package_lists: build argument that names a base → the packages which that base must hold.
        inputs: every file that the build copies, in a fixed order.
        suite: the Debian suite of the bases.
    """

    name: str
    containerfile: str
    package_lists: Mapping[str, tuple[str, ...]]
    inputs: tuple[Path, ...]
    suite: str

    @property
    def tag(self) -> str:
        """Returns the content tag: a hash of all inputs, file modes included."""
        digest = hashlib.sha256()
        for part in (self.containerfile, self.suite, *MMDEBSTRAP_OPTIONS):
            digest.update(part.encode() + b"\0")
        for argument, packages in sorted(self.package_lists.items()):
            digest.update(f"{argument}={','.join(packages)}\0".encode())
        for path in self.inputs:
            executable = "x" if path.stat().st_mode & 0o100 else "-"
            digest.update(f"{path.relative_to(REPOSITORY)} {executable}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()[:16]

    @property
    def reference(self) -> str:
        """Returns the image's full name with its content tag."""
        return f"{REFERENCE_PREFIX}/{self.name}:{self.tag}"


def read_recipe(name: str) -> Recipe:
    """Reads the recipe of one image from images/NAME.

    A file ``packages`` describes the base given as build argument BASE, ``packages.build`` the one given as BUILD_BASE.
    """
    folder = IMAGES / name
    containerfile = (folder / "Containerfile").read_text()
    lists = {"BASE": folder / "packages", "BUILD_BASE": folder / "packages.build"}
    return Recipe(
        name=name,
        containerfile=containerfile,
        package_lists={argument: tuple(path.read_text().split()) for argument, path in lists.items() if path.exists()},
        inputs=tuple(sorted(_copied_files(containerfile))),
        suite=SUITE_FILE.read_text().strip(),
    )


def _copied_files(containerfile: str) -> Iterator[Path]:
    joined = containerfile.replace("\\\n", " ")
    for line in joined.splitlines():
        words = shlex.split(line, comments=True)
        if not words or words[0].upper() not in ("COPY", "ADD") or any(word.startswith("--from=") for word in words):
            continue
        sources = [word for word in words[1:-1] if not word.startswith("--")]
        for source in sources:
            yield from _files_below(REPOSITORY / source)


def _files_below(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    if not path.is_dir():
        raise ImageError(f"a Containerfile copies {path}, which is not there")
    for below in path.rglob("*"):
        if below.is_file() and not _ignored(below):
            yield below


def _ignored(path: Path) -> bool:
    return "__pycache__" in path.parts or "build" in path.relative_to(REPOSITORY).parts or path.suffix == ".pyc"


def build_all(cache: Path, names: Iterable[str] = NAMES) -> dict[str, Image]:
    """Builds the images whose inputs changed since the archives in the cache were made.

    Args:
        cache: folder that outlives the checkout; archives lie in its ``images`` folder.
        names: which images; all by default.

    Returns:
        name → image, each with an archive that exists.

    Raises:
        ImageError: a build failed; the text names its log.
    """
    folder = cache / "images"
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    with _locked(folder / ".lock"):
        return {name: _build(read_recipe(name), Builder(folder)) for name in names}


def push(registry: str, images: Mapping[str, Image]) -> dict[str, str]:
    """Copies built images to a registry.

    Args:
        registry: host and path, for instance ``registry.example.org/hpc``; skopeo's own login is used.
        images: what build_all returned.

    Returns:
        name → reference in the registry.
    """
    pushed: dict[str, str] = {}
    for name, image in images.items():
        target = f"{registry.rstrip('/')}/{name}:{image.reference.rpartition(':')[2]}"
        log = image.archive.parent / "logs" / f"{name}-push.log"
        copy = ["skopeo", "copy", f"docker-archive:{image.archive}", f"docker://{target}"]
        _run(copy, log, f"pushing {target}")
        pushed[name] = target
    return pushed


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("images: waiting for another build in the same cache", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(recipe: Recipe, builder: Builder) -> Image:
    archive = builder.folder / f"{recipe.name}-{recipe.tag}.tar"
    image = Image(recipe.reference, archive)
    if archive.exists():
        return image
    started = time.monotonic()
    builder.build(recipe, archive)
    _prune(builder.folder, recipe.name)
    print(f"images: {recipe.reference} built in {time.monotonic() - started:.0f} s", flush=True)
    return image


def _prune(folder: Path, name: str) -> None:
    archives = sorted(folder.glob(f"{name}-*.tar"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in archives[ARCHIVES_KEPT:]:
        old.unlink()


@dataclass(frozen=True, slots=True)
class Builder:
    """Runs buildah with a storage of its own, so that the machine's other images are left alone."""

    folder: Path

    def build(self, recipe: Recipe, archive: Path) -> None:
        """Builds one image and writes its docker-archive, which appears complete or not at all."""
        log = self.folder / "logs" / f"{recipe.name}.log"
        log.write_text("")
        bases = {
            argument: self._base(recipe, argument, packages, log) for argument, packages in recipe.package_lists.items()
        }
        version = self._slurm_version(bases.get("BUILD_BASE"))
        wheels = self._wheels(recipe, bases["BASE"], log)
        labels = {
            "org.opencontainers.image.version": recipe.tag,
            "org.opencontainers.image.vendor": "pulumi-slurm",
            "org.opencontainers.image.base.name": f"debian:{recipe.suite}",
            **({"pulumi-slurm.dev/slurm-version": version} if version else {}),
        }
        command = self._buildah(
            "build", "--layers=false", "--pull=never", "--format=docker", f"--ignorefile={IMAGES / 'ignore'}"
        )
        command += [f"--build-arg={argument}={base}" for argument, base in bases.items()]
        command += [f"--label={key}={value}" for key, value in labels.items()]
        command += [f"--volume={wheels}:/wheels:ro"] if wheels else []
        command += [f"--file={IMAGES / recipe.name / 'Containerfile'}", f"--tag={recipe.reference}", str(REPOSITORY)]
        _run(command, log, f"building {recipe.name}")
        unfinished = archive.with_suffix(".part")
        unfinished.unlink(missing_ok=True)
        target = f"docker-archive:{unfinished}:{recipe.reference}"
        _run(self._buildah("push", recipe.reference, target), log, f"writing {recipe.name}")
        unfinished.rename(archive)
        _run(self._buildah("rmi", recipe.reference), log, f"removing {recipe.name} from the build storage")

    def _base(self, recipe: Recipe, argument: str, packages: tuple[str, ...], log: Path) -> str:
        key = hashlib.sha256("\0".join((recipe.suite, *MMDEBSTRAP_OPTIONS, *packages)).encode()).hexdigest()[:16]
        local = f"{REFERENCE_PREFIX}/root:{key}"
        if self._has(local):
            return local
        from_registry = REGISTRY_BASE.format(suite=recipe.suite)
        if self._pull(from_registry):
            return from_registry
        self._bootstrap(local, recipe.suite, packages, log, f"root of {recipe.name} ({argument})")
        return local

    def _wheels(self, recipe: Recipe, base: str, log: Path) -> Path | None:
        """Locked Python packages of an image, downloaded here: the build step then needs no network."""
        named = IMAGES / recipe.name / "wheels"
        if not named.exists():
            return None
        requirements = REPOSITORY / named.read_text().strip()
        python = self._python_version(base)
        if python is None:
            return (
                None  # a bare base from a registry: the build installs Python, and then the packages, from the network
            )
        key = hashlib.sha256(requirements.read_bytes() + python.encode()).hexdigest()[:16]
        folder = self.folder / f"wheels-{recipe.name}-{key}"
        if not folder.exists():
            unfinished = folder.with_suffix(".part")
            shutil.rmtree(unfinished, ignore_errors=True)
            download = [sys.executable, "-m", "pip", "download", "--quiet", "--require-hashes", "--only-binary=:all:"]
            download += [f"--python-version={python}", "--implementation=cp", "--dest", str(unfinished)]
            download += [f"--platform={platform}" for platform in WHEEL_PLATFORMS]
            _run([*download, "-r", str(requirements)], log, f"wheels of {recipe.name} for Python {python}")
            unfinished.rename(folder)
        return folder

    def _python_version(self, base: str) -> str | None:
        """Python of a base root, such as 3.14, read off its files: they need no container to run in."""
        container = self._output("from", "--pull=never", base)
        try:
            libraries = Path(self._output("mount", container), "usr/lib")
            versions = sorted(path.name.removeprefix("python") for path in libraries.glob("python3.*"))
        finally:
            self._output("rm", container)
        return versions[-1] if versions else None

    def _has(self, reference: str) -> bool:
        return (
            subprocess.run(self._buildah("inspect", reference), check=False, capture_output=True, timeout=60).returncode
            == 0
        )

    def _pull(self, reference: str) -> bool:
        look = ["skopeo", "inspect", "--raw", f"docker://{reference}"]
        try:
            if subprocess.run(look, check=False, capture_output=True, timeout=REGISTRY_SECONDS).returncode != 0:
                return False
            pull = self._buildah("pull", reference)
            return subprocess.run(pull, check=False, capture_output=True, timeout=BUILD_SECONDS).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def _bootstrap(self, reference: str, suite: str, packages: tuple[str, ...], log: Path, what: str) -> None:
        container = self._output("from", "scratch")
        try:
            root = self._output("mount", container)
            command = ["mmdebstrap", *MMDEBSTRAP_OPTIONS, f"--include={','.join(packages)}", suite, root, apt_mirror()]
            _run(command, log, what)
            _run(self._buildah("commit", "--format=docker", container, reference), log, f"keeping the {what}")
        finally:
            subprocess.run(self._buildah("rm", container), check=False, capture_output=True, timeout=120)

    def _slurm_version(self, base: str | None) -> str | None:
        """Returns the version of the slurmd package in a base, if it is there already."""
        if base is None:
            return None
        container = self._output("from", "--pull=never", base)
        try:
            status = Path(self._output("mount", container), "var/lib/dpkg/status").read_text()
        finally:
            subprocess.run(self._buildah("rm", container), check=False, capture_output=True, timeout=120)
        match = re.search(r"^Package: slurmd\n(?:.+\n)*?Version: (\S+)", status, re.MULTILINE)
        return match[1] if match else None

    def _buildah(self, *arguments: str) -> list[str]:
        storage = [f"--root={self.folder / 'storage'}", f"--runroot={self.folder / 'storage-run'}"]
        return ["buildah", *storage, *arguments]

    def _output(self, *arguments: str) -> str:
        finished = subprocess.run(self._buildah(*arguments), check=False, capture_output=True, text=True, timeout=120)
        if finished.returncode != 0:
            raise ImageError(f"buildah {arguments[0]} failed: {finished.stderr.strip()}")
        return finished.stdout.strip()


def apt_mirror(sources: Path = Path("/etc/apt")) -> str:
    """Returns the mirror that this machine installs Debian packages from.

    Raises:
        ImageError: no source of the archive is configured.
    """
    for path in sorted((sources / "sources.list.d").glob("*.sources")):
        if match := re.search(r"^URIs:\s*(\S+)", path.read_text(), re.MULTILINE):
            return match[1]
    for path in [sources / "sources.list", *sorted((sources / "sources.list.d").glob("*.list"))]:
        if path.exists() and (match := re.search(r"^deb\s+(?:\[[^]]*\]\s+)?(\S+)", path.read_text(), re.MULTILINE)):
            return match[1]
    raise ImageError(f"no package mirror is configured under {sources}: add a Debian source to build the images from")


def _run(command: list[str], log: Path, what: str) -> None:
    """Runs a build step with its output in the log, printing that it is alive and for how long."""
    started = time.monotonic()
    environment = os.environ | {"BUILDAH_ISOLATION": "chroot"}
    with log.open("a") as file:
        file.write(f"+ {shlex.join(command)}\n")
        file.flush()
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)
        try:
            while process.poll() is None:
                elapsed = time.monotonic() - started
                if elapsed > BUILD_SECONDS:
                    raise ImageError(f"{what}: not done after {elapsed:.0f} s; see {log}")
                try:
                    process.wait(PROGRESS_SECONDS)
                except subprocess.TimeoutExpired:
                    print(f"images: {what} … {time.monotonic() - started:.0f} s", flush=True)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    if process.returncode != 0:
        raise ImageError(f"{what} failed (exit code {process.returncode}); the last lines of {log}:\n{_tail(log)}")


def _tail(log: Path, lines: int = 8) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def main(cache: Path) -> None:
    """Builds all images and prints their references."""
    for image in build_all(cache).values():
        print(f"{image.reference}  {image.archive}")
