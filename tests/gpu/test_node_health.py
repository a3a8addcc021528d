"""node-health on the real machine: as many GPUs answer as there are device files."""

from __future__ import annotations

from pathlib import Path

from node_health.check import Machine
from node_health.sources import nvidia_smi as source
from node_health.verdict import Verdict


def test_all_gpus_answer_and_are_free_of_errors(nvidia_smi: Path, device_files: list[Path]) -> None:
    finding = source.judge(source.ask(Machine(), str(nvidia_smi)), len(device_files))
    assert finding.verdict is Verdict.PASS, finding
