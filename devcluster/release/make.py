"""Makes a release: it reads checkout and registry, writes build/release/VERSION, and pushes if a registry is named."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cyclonedx.model.component import ComponentType

from devcluster.images import images
from devcluster.images.image_builder import run_step
from devcluster.images.image_recipe import NAMES, SUITE_FILE
from devcluster.machine.bootstrap import CHECKOUT
from devcluster.machine.progress import Step, StepFailed, say
from devcluster.release import oci_layout, plan, sbom

FOLDER = CHECKOUT / "build" / "release"
DIGESTS = "images.json"
GIT_SECONDS = 60
ASK_SECONDS = 60
COPY_SECONDS = 1800
# Answers of registries for an image that they do not have.
_NOT_THERE = ("manifest unknown", "name unknown", "not found", "status code 404")


@dataclass(frozen=True, slots=True)
class Release:
    """One version's release.

    Attributes:
        version: Such as 1.0.0.
        commit: What it is made from.
        committed_at: The commit's time.
        folder: What is made lies there.
    """

    version: str
    commit: str
    committed_at: datetime
    folder: Path

    def layout(self, image: str) -> Path:
        """Return the image's OCI layout."""
        return self.folder / "images" / image


def release(cache: Path, registry: str | None, *, checkout: Path = CHECKOUT, folder: Path = FOLDER) -> Path:
    """Make the release that pyproject.toml names, and push its images if a registry is named.

    Returns:
        The folder with all of it.

    Raises:
        StepFailed: a release is impossible; the text has every reason, and nothing was changed.
    """
    state, making = _read(checkout, folder)
    _refuse(state, making, registry)
    unfinished = making.folder.with_name(f".{making.version}.part")
    shutil.rmtree(unfinished, ignore_errors=True)
    (unfinished / "images").mkdir(parents=True)
    part = Release(making.version, making.commit, making.committed_at, unfinished)
    _write(part, state, images.build_all(cache), checkout)
    shutil.rmtree(making.folder, ignore_errors=True)
    unfinished.rename(making.folder)
    if registry:
        push(making, registry)
    return making.folder


def dry_run(cache: Path, registry: str | None, *, checkout: Path = CHECKOUT, folder: Path = FOLDER) -> None:
    """Say what a release would do, and change nothing.

    Raises:
        StepFailed: there can be no release.
    """
    state, making = _read(checkout, folder)
    print(f"version {state.version}, git's tag would be {state.tag}, commit {making.commit[:12]}")
    for name, image in images.planned(cache).items():
        there = "is in the cache" if image.archive.exists() else "would be built"
        print(f"image {name}: {image.reference} {there}")
    print(f"would be written: {making.folder}")
    print(f"would be pushed: {f'to {registry}' if registry else 'nothing'}")
    _refuse(state, making, registry)


def push(made: Release, registry: str) -> None:
    """Copy a release's images to a registry under their version, with the digests that they have here.

    Raises:
        StepFailed: a copy failed, or the registry has another digest than the release.
    """
    for image, digest in digests(made.folder).items():
        target = f"{registry}/{image}:{made.version}"
        log = made.folder.parent / "logs" / f"{image}-push.log"
        log.parent.mkdir(exist_ok=True)
        with Step(f"pushing {target}"):
            source = f"oci:{made.layout(image)}:{made.version}"
            run_step(["skopeo", "copy", "--preserve-digests", source, f"docker://{target}"], log, target)
        there, error = _ask(target)
        if there != digest:
            raise StepFailed(f"{target} is {there or error} in the registry and {digest} here: push it again", log)


def digests(folder: Path) -> dict[str, str]:
    """Return the digests of a release's images by their names; empty if none was made in `folder`."""
    file = folder / DIGESTS
    return dict(json.loads(file.read_text())) if file.exists() else {}


def version(checkout: Path) -> str:
    """Return `project.version` of pyproject.toml."""
    return str(tomllib.loads((checkout / "pyproject.toml").read_text())["project"]["version"])


def _read(checkout: Path, folder: Path) -> tuple[plan.Checkout, Release]:
    state = plan.Checkout(
        version=version(checkout),
        changes=tuple(line[3:] for line in _git(checkout, "status", "--porcelain").splitlines()),
        tags=frozenset(_git(checkout, "tag", "--list").split()),
        changelog=(checkout / "CHANGELOG.md").read_text(),
    )
    commit, when = _git(checkout, "log", "-1", "--format=%H %cI").split()
    return state, Release(state.version, commit, datetime.fromisoformat(when), folder / state.version)


def _refuse(state: plan.Checkout, making: Release, registry: str | None) -> None:
    asked = _ask_for_all(registry, state.version) if registry else None
    if problems := plan.problems(state, asked, digests(making.folder)):
        raise StepFailed("no release is made:" + "".join(f"\n  * {problem}" for problem in problems))


def _write(part: Release, state: plan.Checkout, built: Mapping[str, images.Image], checkout: Path) -> None:
    suite = SUITE_FILE.read_text().strip()
    made = {name: _image(part, name, image) for name, image in built.items()}
    (part.folder / DIGESTS).write_text(json.dumps(made, indent=2) + "\n")
    for name, image in built.items():
        subject = _subject(part, f"pulumi-slurm-{name}", ComponentType.CONTAINER, made[name])
        (part.folder / f"{name}.cdx.json").write_text(sbom.bom(subject, sbom.packages_of_image(image.archive), suite))
    pinned = sbom.packages_of_requirements((checkout / "requirements.txt").read_text())
    program = _subject(part, "pulumi-slurm", ComponentType.APPLICATION, part.commit)
    (part.folder / "program.cdx.json").write_text(sbom.bom(program, pinned, suite))
    (part.folder / "notes.md").write_text(_notes(plan.notes(state.changelog, part.version), made))
    name = f"pulumi-slurm-{part.version}"
    _git(checkout, "archive", f"--prefix={name}/", f"--output={part.folder / f'{name}.tar.gz'}", part.commit)


def _image(part: Release, name: str, image: images.Image) -> str:
    """Write an image's OCI layout with the release's labels; returns its digest."""
    log = image.archive.parent / "logs" / f"{name}-release.log"
    source, layout = f"docker-archive:{image.archive}", part.layout(name)
    with Step(f"image {name} of {part.version}"):
        run_step(["skopeo", "copy", "--format=oci", source, f"oci:{layout}:{part.version}"], log, name)
        labels = {
            "org.opencontainers.image.version": part.version,
            "org.opencontainers.image.revision": part.commit,
            "pulumi-slurm.dev/content-tag": image.reference.rpartition(":")[2],
        }
        return oci_layout.label(layout, labels)


def _subject(part: Release, name: str, kind: ComponentType, digest: str) -> sbom.Subject:
    return sbom.Subject(name, part.version, kind, digest, part.committed_at)


def _notes(changes: str, made: Mapping[str, str]) -> str:
    lines = [f"| {image} | `{image}@{digest}` |" for image, digest in made.items()]
    table = "\n".join(["| image | for the stack's config |", "|---|---|", *lines])
    return f"{changes.strip()}\n\n### Images\n\n{table}\n"


def _ask_for_all(registry: str, wanted: str) -> plan.Registry:
    answers = {name: _ask(f"{registry}/{name}:{wanted}") for name in NAMES}
    return plan.Registry(
        registry,
        digests={name: digest for name, (digest, _) in answers.items() if digest},
        errors={name: error for name, (_, error) in answers.items() if error},
    )


def _ask(reference: str) -> tuple[str, str]:
    """Returns a reference's digest at a registry, and the error of the question; one or both are empty."""
    command = ["skopeo", "inspect", "--raw", f"docker://{reference}"]
    try:
        asked = subprocess.run(command, check=False, capture_output=True, timeout=ASK_SECONDS)
    except subprocess.TimeoutExpired:
        return "", f"none within {ASK_SECONDS} s"
    if asked.returncode == 0:
        return f"sha256:{hashlib.sha256(asked.stdout).hexdigest()}", ""
    logged = re.search(r'msg="(.*)"', asked.stderr.decode(errors="replace"))
    said = logged[1].replace('\\"', "'") if logged else f"skopeo ended with status {asked.returncode}"
    return ("", "") if any(answer in said.lower() for answer in _NOT_THERE) else ("", said)


def _git(checkout: Path, *arguments: str) -> str:
    asked = subprocess.run(
        ["git", "-C", str(checkout), *arguments], check=False, capture_output=True, text=True, timeout=GIT_SECONDS
    )
    if asked.returncode != 0:
        raise StepFailed(f"git {arguments[0]} failed: {asked.stderr.strip()}")
    return asked.stdout


def tell(folder: Path, checkout: Path = CHECKOUT) -> None:
    """Print what was made, and the remaining manual steps."""
    say(f"made in {folder.relative_to(checkout)}: images, SBOMs (*.cdx.json), sources and notes.md")
    say(f"  tag it: git tag --annotate v{folder.name} --file {folder.relative_to(checkout)}/notes.md")
