"""A control group without a GPU's device file hides that GPU from the driver's programs, as ConstrainDevices=yes does.

The rule is the test's own, of the kinds that Slurm makes: Slurm's needs a job, and so a whole cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gpu import device_groups
from tests.gpu.device_groups import Group, Kind


@pytest.fixture(params=Kind)
def group(device_files: list[Path], nvidia_smi: Path, request: pytest.FixtureRequest) -> Iterator[Group]:
    try:
        with device_groups.make(request.param) as made:
            yield made
    except device_groups.Unavailable as error:
        pytest.skip(str(error))  # A machine has one version of cgroups, and `make test-gpu` prints what it skipped.


def listed(group: Group, nvidia_smi: Path) -> set[str]:
    """UUIDs of the GPUs that nvidia-smi lists in a group; it fails where it finds none."""
    return set(re.findall(r"UUID: (GPU-[\w-]+)", group.run(str(nvidia_smi), "-L").stdout))


def test_a_group_that_was_refused_a_gpus_file_has_all_gpus_but_that_one(
    group: Group, device_files: list[Path], nvidia_smi: Path
) -> None:
    every = listed(group, nvidia_smi)
    assert (group.opened(device_files), len(every)) == (device_files, len(device_files))
    refused, *others = device_files
    try:
        group.deny(refused)
    except device_groups.Unavailable as error:
        pytest.skip(str(error))  # A container may make groups, and no rule for devices.
    assert group.opened(device_files) == others
    left = listed(group, nvidia_smi)
    assert left < every
    assert len(left) == len(others)
