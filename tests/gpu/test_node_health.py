"""node-health on the real machine: as many GPUs answer as there are device files."""

from __future__ import annotations

from pathlib import Path

from node_health.checks import gpus
from node_health.node import Declared
from node_health.verdict import Verdict


def test_all_gpus_answer_and_are_free_of_errors(nvidia_smi: Path, device_files: list[Path]) -> None:
    finding = gpus.judge(gpus.look(nvidia_smi), Declared(gpus=len(device_files)))
    assert finding.verdict is Verdict.PASS, finding
