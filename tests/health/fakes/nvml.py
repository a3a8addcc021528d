"""The fake NVML of the dev cluster (devcluster/fakes/nvml), to which NVIDIA's own binding talks in tests."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from devcluster.fakes import gpu_scenario

NATIVE = Path(__file__).resolve().parents[3] / "native"
NAME = "libnvidia-ml.so.1"
GPUS = 8


class Nvml:
    """Writes what the fake NVML answers: eight GPUs that are well, until a test says otherwise.

    Args:
        file: its scenario.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.says()

    def says(self, modes: Mapping[int, str] | None = None, gpus: int = GPUS, **others: Any) -> None:
        """Writes another scenario, with the arguments of gpu_scenario.text."""
        self.file.write_text(gpu_scenario.text(modes, gpus=gpus, **others))

    def adds(self, gpu: int, facts: Mapping[str, object]) -> None:
        """Adds facts of a GPU to the scenario."""
        lines = (f"{gpu} {fact} {value}\n" for fact, value in facts.items())
        self.file.write_text(self.file.read_text() + "".join(lines))


def load(out: Path) -> ctypes.CDLL:
    """Builds the library and loads it: whoever loads libnvidia-ml.so.1 in this process then gets it by its soname."""
    command = ["make", "-s", "-C", str(NATIVE), f"OUT={out}", str(out / NAME)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert built.returncode == 0, built.stderr
    return ctypes.CDLL(str(out / NAME))
