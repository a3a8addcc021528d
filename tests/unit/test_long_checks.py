"""Promises about the scripts of builtin long checks: their exit status says what the tool found."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from components.config.nodes.long_checks import LongCheck
from components.control import long_checks

NCCL = """cat <<'END'
# Out of bounds values : 0 OK
# Avg bus bandwidth    : {}
#
END
"""
SLOW, FAST = NCCL.format("214.967"), NCCL.format("482.05")


def status(tmp_path: Path, tools: dict[str, str], **check: Any) -> int:
    """Run a check beside fakes of tools, and return its exit status."""
    for name, text in tools.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    script = tmp_path / "script"
    script.write_text(long_checks.script(LongCheck(name="a", partition="main", **check)))
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_GPUS_ON_NODE": "8"}
    return subprocess.run(["sh", script], env=environment, timeout=60, check=False, capture_output=True).returncode


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        (FAST, 0),
        (SLOW, 10 + 53),
        (NCCL.format("0.05"), 10),
        ("exit 2", 1),
        ("echo nothing", 3),
        ("exit 127", 3),
        ('[ "$8" = 8 ] || exit 9\n' + FAST, 0),
    ],
    ids=["fast", "slow", "next to nothing", "fails", "says nothing", "has no library", "all GPUs"],
)  # fmt: skip
def test_all_reduce_compares_the_bus_bandwidth(tmp_path: Path, tool: str, expected: int) -> None:
    assert status(tmp_path, {"all_reduce_perf": tool}, builtin="all-reduce", least=400) == expected


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        ("exit 0", 0),
        ('[ "$1" = discovery ] && exit 255', 3),
        ('[ "$1" = discovery ] || exit 226', 1),
        ('[ "$1" = discovery ] || [ "$*" = "diag -r 3" ] || exit 226', 0),
    ],
    ids=["well", "no host engine", "fails", "its level"],
)  # fmt: skip
def test_dcgm_diag_is_unknown_without_its_host_engine(tmp_path: Path, tool: str, expected: int) -> None:
    assert status(tmp_path, {"dcgmi": tool}, builtin="dcgm-diag-3") == expected


def test_memory_bandwidth_measures_this_machine(tmp_path: Path) -> None:
    assert status(tmp_path, {}, builtin="memory-bandwidth", least=1) == 0
    assert 10 <= status(tmp_path, {}, builtin="memory-bandwidth", least=1_000_000) < 109
    assert status(tmp_path, {"dd": "exit 1"}, builtin="memory-bandwidth", least=1) == 3
