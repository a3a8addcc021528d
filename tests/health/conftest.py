"""NVIDIA's own binding talks to the fake NVML in all tests of this folder."""

from __future__ import annotations

import pytest

from tests.health.fakes.nvml import Nvml


@pytest.fixture(autouse=True)
def fake_nvml(nvml: Nvml) -> None:
    """Eight GPUs that are well."""
