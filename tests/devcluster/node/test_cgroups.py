from __future__ import annotations

import os
from pathlib import Path

import pytest

from devcluster.node import cgroups

CORES = 2
GROUPS = ("node", "supervisor")


@pytest.mark.parametrize(
    ("file", "process", "pods"), [("cpu.shares", 1024, 1024 * CORES), ("cpu.weight", 100, 100 * CORES)]
)
def test_a_node_short_of_cores_gets_them_before_its_pods_and_before_other_processes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: str, process: int, pods: int
) -> None:
    """Pods are then refused for minutes: nobody knows their addresses yet."""
    monkeypatch.setattr(cgroups, "here", lambda: [tmp_path])
    monkeypatch.setattr(os, "cpu_count", lambda: CORES)
    files = [tmp_path / "x" / file, tmp_path / "x" / "node" / file, tmp_path / "x" / "supervisor" / file]
    for each in files:
        each.parent.mkdir()
        each.write_text(str(process))

    cgroups.create("x", GROUPS)

    instance, node, supervisor = (int(each.read_text()) for each in files)
    assert node > 3 * pods
    assert instance > 3 * process
    assert supervisor == process


def test_many_cores_stay_within_what_the_kernel_takes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cgroups, "here", lambda: [tmp_path])
    monkeypatch.setattr(os, "cpu_count", lambda: 256)
    (tmp_path / "x" / "node").mkdir(parents=True)
    (tmp_path / "x" / "node" / "cpu.weight").write_text("100")

    cgroups.create("x", GROUPS)

    assert (tmp_path / "x" / "node" / "cpu.weight").read_text() == "10000"
