"""`make test-gpu`: tests of a GPU machine without Kubernetes, with one line for each skipped test and its reason.

Standard library only: with a bundle it runs on a machine without network and virtual environment.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devcluster.machine.bootstrap import CHECKOUT
from devcluster.machine.progress import StepFailed

FOLDER = "tests/gpu"
SECONDS = 600
TIMED_OUT = 124
SOURCES = (
    FOLDER, "components/__init__.py", "components/pods/__init__.py", "components/pods/pod_security.py", "contract",
    "devcluster/fakes/nvidia_smi", "devcluster/vm/device_programs.py", "health/node_health", "images/slurm/slurm_node",
    "tests/image/networks.py", "tests/image/pods.py", "tests/image/rendered_cluster.py", "tests/vm/v2_groups.py",
)  # fmt: skip
"""Paths of a checkout that the tests import or read."""
IMPORTED_FROM = (".", "health", "images/slurm", "packages")
IMAGE = "image"
RENDERED = "rendered.json"
"""Names in a bundle, besides the sources: the slurm image's root, and the file of tests/gpu/rendered.py."""
OLDEST_PYTHON = (3, 11)


@dataclass(frozen=True, slots=True)
class Part:
    """Result of one test: passed, skipped or FAILED, and why."""

    name: str
    outcome: str
    reason: str


def has_gpu(devices: Path = Path("/dev")) -> bool:
    """Return whether the machine has an NVIDIA GPU's device file."""
    return next(devices.glob("nvidia[0-9]*"), None) is not None


def parts(report: Path) -> list[Part]:
    """Return the tests of a JUnit report, one line each."""
    return [_part(case) for case in ElementTree.parse(report).getroot().iter("testcase")]  # noqa: S314 - pytest's own


def _part(case: ElementTree.Element) -> Part:
    name = f"{(case.get('classname') or '').rpartition('.')[2]}: {(case.get('name') or '').replace('_', ' ')}"
    for outcome, kinds in (("FAILED", ("failure", "error")), ("skipped", ("skipped",))):
        for kind in kinds:
            if (element := case.find(kind)) is not None:
                return Part(name, outcome, (element.get("message") or "").splitlines()[0])
    return Part(name, "passed", "")


def run(
    record: Path | None,
    junit: Path | None,
    tree: Path = CHECKOUT,
    made: Path | None = None,
    python: Sequence[str] = (sys.executable,),
) -> int:
    """Run the tests of a tree and print how each ended; 0 only if none failed.

    Args:
        record: the folder for what nvidia-smi and NVML answer.
        junit: where pytest's report goes.
        tree: a checkout, or what a bundle held.
        made: the folder with IMAGE and RENDERED.
        python: the command that runs pytest.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(tree / folder) for folder in IMPORTED_FROM)}
    if record:
        record.mkdir(parents=True, exist_ok=True)
        environment["PULUMI_SLURM_GPU_RECORD"] = str(record.resolve())
    if made:
        environment["PULUMI_SLURM_IMAGE"] = str(made / IMAGE)
        environment["PULUMI_SLURM_RENDERED"] = str(made / RENDERED)
    with tempfile.TemporaryDirectory() as scratch:
        report = junit.resolve() if junit else Path(scratch) / "report.xml"
        report.unlink(missing_ok=True)
        # The tests' common conftest.py needs packages that a GPU machine may lack.
        alone = [f"--confcutdir={tree / FOLDER}", "--import-mode=importlib", "-p", "no:cacheprovider"]
        quiet = ["-q", "-o", "addopts=", "-rfE"]  # The table below says what was skipped.
        command = [*python, "-m", "pytest", *quiet, *alone, f"--junit-xml={report}", FOLDER]
        try:
            status = subprocess.run(command, cwd=tree, env=environment, timeout=SECONDS, check=False).returncode
        except subprocess.TimeoutExpired:
            status = TIMED_OUT
        if not report.exists():
            return status or 1
        for part in parts(report):
            print(f"{part.outcome:8} {part.name}{f' ({part.reason})' if part.reason else ''}", flush=True)
    return status


def run_bundle(bundle: Path, record: Path | None, junit: Path | None) -> int:
    """Run the tests of a bundle by this Python.

    Raises:
        StepFailed: there is no such file, or this Python is too old for the tests.
    """
    if sys.version_info < OLDEST_PYTHON:
        raise StepFailed(f"the tests need Python {'.'.join(map(str, OLDEST_PYTHON))}: run devcluster by a newer one")
    if not bundle.exists():
        raise StepFailed(f"--from {bundle}: there is no such file; --bundle writes one on a development machine")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder, tarfile.open(bundle) as packed:
        # Debian 12's Python knows no filters.
        packed.extraction_filter = getattr(tarfile, "tar_filter", None)
        packed.extractall(folder)  # noqa: S202 - our own file
        # -S: the bundle brings all that its tests import.
        return run(record, junit, Path(folder), Path(folder), (sys.executable, "-S"))
