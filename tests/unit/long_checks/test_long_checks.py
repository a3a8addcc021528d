"""Promises about the scripts of builtin long checks: their exit status says what the tool found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.long_checks.check_scripts import ADDRESS, HERE, NO_ADDRESS, status

SENT = """[ "$1" = --server ] && exec sleep 5
[ "$1 $2" = "--client ADDRESS" ] || exit 1
echo '{"end": {"sum_sent": {"bits_per_second": 1}, "sum_received": {"bytes": 1,
"bits_per_second": 7960000000.5}}}'""".replace("ADDRESS", ADDRESS)


@pytest.mark.parametrize(
    ("tools", "least", "expected"),
    [
        ({"iperf3": SENT, "srun": HERE}, 900, 0),
        ({"iperf3": SENT, "srun": HERE}, 1990, 10 + 50),
        ({"iperf3": '[ "$1" = --server ] || exit 1', "srun": HERE, "sleep": ""}, 900, 1),
        ({"iperf3": '[ "$1" = --server ] || echo "{}"', "srun": HERE}, 900, 3),
        ({"iperf3": SENT, "srun": NO_ADDRESS}, 900, 3),
    ],
    ids=["fast", "slow", "no connection", "says nothing", "no address"],
)
def test_network_compares_what_the_other_node_received(
    tmp_path: Path, tools: dict[str, str], least: int, expected: int
) -> None:
    assert status(tmp_path, tools, builtin="network", nodes=2, least=least) == expected


def ping_pong(said: str) -> dict[str, str]:
    """Fakes of an MPI whose ping-pong prints something, or of what it runs in its place."""
    return {"mpicc": ":", "mpiexec": said, "srun": HERE}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ('echo "hundredths of MB/s: 1201131"', 0),
        ('echo "hundredths of MB/s: 500000"', 60),
        ('echo "hundredths of MB/s: 7"', 10),
        ("exit 1", 1),
        ("", 3),
    ],
    ids=["fast", "slow", "next to nothing", "fails", "both on one node"],
)
def test_mpi_ping_pong_compares_the_bandwidth(tmp_path: Path, said: str, expected: int) -> None:
    assert status(tmp_path, ping_pong(said), builtin="mpi-ping-pong", nodes=2, least=10_000) == expected


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        ({"mpicc": "exit 1"}, 3),
        ({"srun": "exit 1"}, 1),
        ({"srun": "exit 127"}, 127),
    ],
    ids=["no compiler", "no other node", "not there"],
)
def test_mpi_ping_pong_without_its_program_says_nothing_of_the_nodes(
    tmp_path: Path, tools: dict[str, str], expected: int
) -> None:
    there = ping_pong('echo "hundredths of MB/s: 1201131"') | tools
    assert status(tmp_path, there, builtin="mpi-ping-pong", nodes=2, least=10_000) == expected


FIO = "echo '3;fio-3.33;check;0;0;{};1.2'".format(";".join(["0"] * 42 + ["204800"]))


@pytest.mark.parametrize(
    ("tool", "least", "expected"),
    [(FIO, 200, 0), (FIO, 400, 10 + 52), ("exit 1", 200, 1), ("exit 127", 200, 127), ("", 200, 3)],
    ids=["fast", "slow", "fails", "is not there", "says nothing"],
)
def test_disk_compares_the_bandwidth_of_writes(tmp_path: Path, tool: str, least: int, expected: int) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    assert status(tmp_path, {"fio": tool}, builtin="disk", directory=str(disk), least=least) == expected
    assert [*disk.iterdir()] == []


def test_whatever_ends_a_check_of_a_disk_nothing_of_it_stays_there(tmp_path: Path) -> None:
    """Slurm ends a job that reaches its time limit; here fio ends the batch shell while it has written."""
    disk, tool = (
        tmp_path / "disk",
        'for file in "$@"; do case $file in --filename=*) echo x >>"${file#*=}" ;; esac; done',
    )
    disk.mkdir()
    killed = f"{tool}\nls {disk} >{tmp_path}/seen\nkill -KILL $PPID"
    assert status(tmp_path, {"fio": killed}, builtin="disk", directory=str(disk), least=200) not in (0, 3)
    assert (tmp_path / "seen").read_text() == ""
    assert [*disk.iterdir()] == []


def test_a_disk_without_room_for_a_file_is_unknown(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    assert status(tmp_path, {"fio": FIO}, builtin="disk", directory=gone, least=200) == 3


@pytest.mark.parametrize(
    "check",
    [
        {"builtin": "network", "nodes": 2, "least": 1},
        {"builtin": "mpi-ping-pong", "nodes": 2, "least": 1},
        {"builtin": "disk", "directory": "/scratch", "least": 1},
        {"builtin": "all-reduce", "nodes": 2, "least": 1},
        {"builtin": "all-reduce", "least": 1},
        {"builtin": "all-reduce"},
        {"builtin": "nvbandwidth"},
        {"builtin": "ib-write-bw", "nodes": 2, "least": 1},
        {"builtin": "gpu-burn"},
        {"builtin": "dcgm-diag-1"},
        {"script": "/opt/none"},
    ],
)
def test_a_check_whose_program_is_not_in_the_jail_says_so(tmp_path: Path, check: dict[str, Any]) -> None:
    assert status(tmp_path, {}, **check) == 127


def test_memory_bandwidth_measures_this_machine(tmp_path: Path) -> None:
    assert status(tmp_path, {}, builtin="memory-bandwidth", least=1) == 0
    # The whole measurement has been seen: it takes seconds of each CPU.
    short = {"dd": 'exec /bin/dd "$1" "$2" "$3" count=20'}
    assert 10 <= status(tmp_path, short, builtin="memory-bandwidth", least=1_000_000) < 109
    assert status(tmp_path, {"dd": "exit 1"}, builtin="memory-bandwidth", least=1) == 3
