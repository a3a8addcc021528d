"""Runs buildah for one image: its bases from a registry or from the machine's Debian archive, then its build."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from devcluster.images.image_recipe import (
    IMAGES,
    MMDEBSTRAP_OPTIONS,
    REFERENCE_PREFIX,
    REPOSITORY,
    ImageError,
    Recipe,
    root_reference,
)

REGISTRY_BASE = "docker.io/library/debian:{suite}-slim"
WHEEL_PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "any")
PROGRESS_SECONDS = 10.0
REGISTRY_SECONDS = 10.0
BUILD_SECONDS = 1800.0
BUSY = "sealing memfd copy: Device or resource busy"
"""Buildah copies itself to memory for each RUN. These are its last words if the kernel still uses a page of that."""


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
        run_step(command, log, f"building {recipe.name}")
        unfinished = archive.with_suffix(".part")
        unfinished.unlink(missing_ok=True)
        target = f"docker-archive:{unfinished}:{recipe.reference}"
        run_step(self._buildah("push", recipe.reference, target), log, f"writing {recipe.name}")
        unfinished.rename(archive)
        run_step(self._buildah("rmi", recipe.reference), log, f"removing {recipe.name} from the build storage")

    def remove_roots_but(self, wanted: set[str]) -> None:
        """Deletes base roots of former package lists, which are large."""
        listed = self._output("images", "--format", "{{.Name}}:{{.Tag}}").splitlines()
        for name in {image for image in listed if image.startswith(f"{REFERENCE_PREFIX}/root:")} - wanted:
            subprocess.run(self._buildah("rmi", name), check=False, capture_output=True, timeout=120)

    def _base(self, recipe: Recipe, argument: str, packages: tuple[str, ...], log: Path) -> str:
        local = root_reference(recipe.suite, packages)
        if self._has(local):
            return local
        from_registry = REGISTRY_BASE.format(suite=recipe.suite)
        if self._pull(from_registry):
            return from_registry
        self._bootstrap(local, recipe.suite, packages, log, f"root of {recipe.name} ({argument})")
        return local

    def _wheels(self, recipe: Recipe, base: str, log: Path) -> Path | None:
        """Return the locked Python packages of an image, downloaded here: the build step then needs no network."""
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
            run_step([*download, "-r", str(requirements)], log, f"wheels of {recipe.name} for Python {python}")
            unfinished.rename(folder)
        return folder

    def _python_version(self, base: str) -> str | None:
        """Return the Python version of a base root, such as 3.14, by its files: no container has to run."""
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
            run_step(command, log, what)
            run_step(self._buildah("commit", "--format=docker", container, reference), log, f"keeping the {what}")
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
    """Returns the URL of the Debian archive that this machine installs packages from.

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


def run_step(command: list[str], log: Path, what: str) -> None:
    """Runs a build step with its output in the log, printing that it is alive and for how long.

    Raises:
        ImageError: it failed, or took too long. A step that failed as BUSY tells is tried three times.
    """
    for attempts_left in (2, 1, 0):
        code = _attempt(command, log, what)
        if code == 0:
            return
        if BUSY not in _tail(log) or not attempts_left:
            raise ImageError(f"{what} failed (exit code {code}); the last lines of {log}:\n{_tail(log)}")
        print(f"images: {what}: once more, since the kernel was busy ({BUSY})", flush=True)


def _attempt(command: list[str], log: Path, what: str) -> int:
    """Runs a build step once and returns its exit code."""
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
    return process.returncode


def _tail(log: Path, lines: int = 8) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
