"""SBOMs in CycloneDX 1.6: what dpkg and pip say that an image holds, and what requirements.txt names.

The image build copies Slurm's prefix from packages. build_prefix.py puts their entries into dpkg's status.d, where
image scanners look.
"""

from __future__ import annotations

import email
import json
import re
import tarfile
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO

from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

_DPKG = re.compile(r"(\./)?var/lib/dpkg/(status|status\.d/[^/]+)")
_PIP = re.compile(r"(\./)?usr/local/lib/python3[^/]*/dist-packages/[^/]+\.dist-info/METADATA")
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s\\;]+)", re.MULTILINE)
_SERIAL_NUMBERS = uuid.UUID("5c0ff4f6-4a4e-4f0e-8a39-8f0f0c0b7f55")


@dataclass(frozen=True, slots=True, order=True)
class Package:
    """An installed package.

    Attributes:
        kind: deb or pypi.
        name: As dpkg or PyPI writes it.
        version: The same.
        architecture: Debian's, such as amd64 or all; empty for Python's.
    """

    kind: str
    name: str
    version: str
    architecture: str = ""

    def url(self, suite: str) -> PackageURL:
        """Return the package as a purl; `suite` is Debian's, such as forky."""
        if self.kind == "deb":
            return PackageURL("deb", "debian", self.name, self.version, {"arch": self.architecture, "distro": suite})
        return PackageURL(self.kind, None, re.sub(r"[-_.]+", "-", self.name.lower()), self.version)


@dataclass(frozen=True, slots=True)
class Subject:
    """Subject of an SBOM.

    Attributes:
        name: Such as pulumi-slurm-operator.
        version: The release's.
        kind: A container image or an application.
        digest: The image's manifest, or the commit.
        released_at: Time of the commit: the same release gives the same file.
    """

    name: str
    version: str
    kind: ComponentType
    digest: str
    released_at: datetime


def bom(subject: Subject, packages: Iterable[Package], suite: str) -> str:
    """Return the SBOM as JSON text."""
    described = Component(
        name=subject.name, version=subject.version, type=subject.kind, bom_ref=f"{subject.name}@{subject.digest}"
    )
    components = [
        Component(
            name=package.name, version=package.version, type=ComponentType.LIBRARY, purl=url, bom_ref=url.to_string()
        )
        for package in sorted(set(packages))
        for url in [package.url(suite)]
    ]
    document = Bom(
        components=components,
        metadata=BomMetaData(component=described, timestamp=subject.released_at),
        serial_number=uuid.uuid5(_SERIAL_NUMBERS, f"{subject.name} {subject.version} {subject.digest}"),
    )
    document.register_dependency(described, components)
    return f"{JsonV1Dot6(document).output_as_string(indent=2)}\n"


def packages_of_image(archive: Path) -> set[Package]:
    """Return the packages in a docker-archive, by dpkg's status and by pip's metadata."""
    files: dict[str, str] = {}
    with tarfile.open(archive) as image:
        (manifest,) = json.load(_member(image, "manifest.json"))
        for layer in manifest["Layers"]:  # The lowest first: an upper one's file is the image's.
            with tarfile.open(fileobj=_member(image, layer)) as content:
                files |= dict(_package_files(content))
    return {package for name, text in files.items() for package in _packages(name, text)}


def packages_of_requirements(text: str) -> set[Package]:
    """Return the packages that a requirements.txt pins."""
    return {Package("pypi", name, version) for name, version in _PIN.findall(text)}


def _member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    file = archive.extractfile(name)
    if file is None:
        raise ValueError(f"{name} of the archive is no file")
    return file


def _package_files(layer: tarfile.TarFile) -> Iterator[tuple[str, str]]:
    for entry in layer:
        if entry.isfile() and (_DPKG.fullmatch(entry.name) or _PIP.fullmatch(entry.name)):
            yield entry.name.removeprefix("./"), _member(layer, entry.name).read().decode(errors="replace")


def _packages(name: str, text: str) -> Iterator[Package]:
    if _PIP.fullmatch(name):
        metadata = email.message_from_string(text)
        yield Package("pypi", metadata["Name"], metadata["Version"])
        return
    for paragraph in re.split(r"\n\n+", text.strip()):
        fields = email.message_from_string(paragraph)
        if (fields["Status"] or "").endswith(" installed"):
            yield Package("deb", fields["Package"], fields["Version"], fields["Architecture"])
