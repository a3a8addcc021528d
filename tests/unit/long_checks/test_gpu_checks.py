"""Promises about long checks of GPUs and RDMA adapters: their exit status says what the tool found."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from components.config import parse
from components.config.nodes.long_checks import LongCheck
from components.control import long_checks
from devcluster.fakes import gpu_scenario
from tests.unit.long_checks.check_scripts import HERE, NO_ADDRESS, status
from tests.unit.samples import SMALL, changed

ALL_REDUCE = {"all_reduce_perf": None}
MPI = {"srun": "exit 9", "mpiexec": '[ "$1" = -n ] || exit 9; shift 2; exec "$@"'}
"""A fake of mpiexec that starts one rank on this machine."""
REPORT = 'echo "$@" >"${0%/*}/report"'
WORDS = {"1": "DOWN", "4": "ACTIVE"}
"""Of a port's state in sysfs."""
RECORDED = Path(__file__).parent / "recorded"
"""Words of the tools on an NVIDIA H200 and, gpu_burn, an H100 (tests/gpu/test_long_checks.py): one GPU each."""
TOOLS = {"all-reduce": "all_reduce_perf", "nvbandwidth": "nvbandwidth", "gpu-burn": "gpu_burn"}
ASKED = {
    "all_reduce_perf": ["-b", "1G", "-e", "4G", "-f", "2", "-g", "1"],
    "nvbandwidth": ["-t", "host_to_device_memcpy_ce", "device_to_host_memcpy_ce"],
    "gpu_burn": ["30"],
}
MISMATCH = "echo '# Avg bus bandwidth    : surprise'"


def scenario(name: str, answer: str, **more: Any) -> str:
    """Eight GPUs, and a program that answers so."""
    return gpu_scenario.text(gpus=8, tools={name: answer}, **more)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("482.05", 0), ("482", 0), ("214.967", 10 + 53), ("214", 10 + 53), ("0.05", 10), ("exit 2", 1), ("silent", 3),
        ("exit 127", 127),
    ],
    ids=["fast", "fast, whole", "slow", "slow, whole", "next to nothing", "fails", "says nothing", "has no library"],
)  # fmt: skip
@pytest.mark.parametrize("nodes", [1, 4])
def test_all_reduce_compares_the_bus_bandwidth(tmp_path: Path, answer: str, nodes: int, expected: int) -> None:
    tools, told = ALL_REDUCE | MPI, scenario("all_reduce_perf", answer)
    assert status(tmp_path, tools, told, builtin="all-reduce", nodes=nodes, least=400) == expected


def test_an_all_reduce_of_which_each_rank_tells_its_own_is_unknown(tmp_path: Path) -> None:
    tools = ALL_REDUCE | MPI | {"mpiexec": 'shift 2; "$@"; exec "$@"', "slurm-check-report": REPORT}
    assert status(tmp_path, tools, builtin="all-reduce", nodes=4, least=400) == 3
    assert "built without its MPI" in (tmp_path / "report").read_text()


def test_an_all_reduce_of_a_single_gpu_is_unknown_and_says_why(tmp_path: Path) -> None:
    """nccl-tests counts nothing as sent then: a real H200 answered 0."""
    tools = ALL_REDUCE | {"slurm-check-report": REPORT}
    assert status(tmp_path, tools, "gpus 1\n", builtin="all-reduce", least=400) == 3
    assert "a node with one GPU" in (tmp_path / "report").read_text()


def test_all_reduce_has_all_gpus_of_the_node(tmp_path: Path) -> None:
    tool = '[ "$*" = "-b 1G -e 4G -f 2 -g 8" ] && echo "# Avg bus bandwidth : 500.0"'
    assert status(tmp_path, {"all_reduce_perf": tool}, builtin="all-reduce", least=400) == 0
    assert status(tmp_path, {"all_reduce_perf": MISMATCH}, builtin="all-reduce", least=400) == 3
    assert status(tmp_path, ALL_REDUCE, "gpus 0\n", builtin="all-reduce", least=400) == 3


@pytest.mark.parametrize(
    ("builtin", "tool", "answer", "expected"),
    [
        ("all-reduce", "all_reduce_perf", "460.00", 0),
        ("all-reduce", "all_reduce_perf", "459.99", 10 + 99),
        ("nvbandwidth", "nvbandwidth", "48.00", 0),
        ("nvbandwidth", "nvbandwidth", "24.01", 10 + 50),
    ],
)
def test_a_known_product_has_a_threshold_of_its_own(
    tmp_path: Path, builtin: str, tool: str, answer: str, expected: int
) -> None:
    """Of an H100, by health/thresholds."""
    assert status(tmp_path, {tool: None}, scenario(tool, answer), builtin=builtin) == expected


def test_a_products_all_reduce_is_measured_as_its_threshold_was(tmp_path: Path) -> None:
    tool = '[ "$*" = "-b 16G -e 16G -g 8" ] && echo "# Avg bus bandwidth : 470.0"'
    assert status(tmp_path, {"all_reduce_perf": tool}, builtin="all-reduce") == 0


def test_the_operator_tells_of_a_products_threshold_in_words() -> None:
    gpus = changed("nodeSets.0.gpus", {"type": "h100", "perNode": 8}, SMALL)
    checks = [{"name": "a", "partition": "main", "builtin": "nvbandwidth"}]
    config = parse(changed("health.longChecks", checks, gpus))
    assert [check["least"] for check in long_checks.declared_checks(config)] == ["its GPUs' GB/s"]


@pytest.mark.parametrize(
    "told",
    [
        gpu_scenario.text(dict.fromkeys(range(8), "other_product"), gpus=8),
        gpu_scenario.text({3: "other_product"}, gpus=8),
        gpu_scenario.text(dict.fromkeys(range(8), "no_bridge"), gpus=8),
        gpu_scenario.text(gpus=4),
    ],
    ids=["no file", "two products", "unknown", "half a machine"],
)
def test_without_a_known_threshold_nobody_can_judge(tmp_path: Path, told: str) -> None:
    assert status(tmp_path, ALL_REDUCE, told, builtin="all-reduce") == 3
    assert status(tmp_path, ALL_REDUCE, told, builtin="all-reduce", least=400) == 0, "least needs no product"


def test_half_a_machine_has_whole_pcie_links(tmp_path: Path) -> None:
    assert status(tmp_path, {"nvbandwidth": None}, gpu_scenario.text(gpus=4), builtin="nvbandwidth") == 0


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        (None, 0),
        ("exit 2", 1),
        ("exit 127", 127),
        ("echo surprise", 3),
        ("printf ' 0     55.36     20.36     55.36     55.36\\n%.0s' 1 2", 3),
        (f"printf ' 0{'     55.36' * 7}     24.36\\n 0{'     55.36' * 8}\\n'", 10 + 48),
    ],
    ids=["well", "fails", "has no library", "says nothing", "of some GPUs", "one is slow"],
)
def test_nvbandwidth_compares_the_slowest_gpu(tmp_path: Path, tool: str | None, expected: int) -> None:
    assert status(tmp_path, {"nvbandwidth": tool}, builtin="nvbandwidth", least=50) == expected


@pytest.mark.parametrize(
    ("builtin", "check", "expected"),
    [
        ("all-reduce", {"nodes": 4, "least": 400}, 10),
        ("nvbandwidth", {"least": 54}, 0),
        ("nvbandwidth", {}, 0),
        ("nvbandwidth", {"least": 100}, 10 + 54),
        ("gpu-burn", {}, 0),
    ],
    ids=["nothing to reduce", "copies", "a product's copies", "slow copies", "burn"],
)
def test_what_the_tools_said_on_real_gpus_is_understood(
    tmp_path: Path, builtin: str, check: dict[str, Any], expected: int
) -> None:
    tools = {TOOLS[builtin]: f'[ "$1" = -h ] || cat {RECORDED / TOOLS[builtin]}.txt'} | MPI
    told = gpu_scenario.text(gpus=1) + "0 name NVIDIA H200\n"
    assert status(tmp_path, tools, told, builtin=builtin, **check) == expected


@pytest.mark.parametrize("tool", TOOLS.values())
def test_a_fake_tool_says_nothing_that_the_real_one_does_not(tmp_path: Path, tool: str) -> None:
    (tmp_path / "scenario").write_text(gpu_scenario.text(gpus=1))
    shutil.copy(gpu_scenario.PROGRAMS[tool], tmp_path / tool)
    shutil.copy(gpu_scenario.PROGRAMS["nvidia-smi"], tmp_path / "nvidia-smi")
    asked = [str(tmp_path / tool), *ASKED[tool]]
    there = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "FAKE_GPUS": str(tmp_path / "scenario")}
    said = subprocess.run(asked, env=there, timeout=60, check=True, capture_output=True, text=True).stdout
    assert _shapes(said)
    assert _shapes(said) <= _shapes((RECORDED / f"{tool}.txt").read_text())


def _shapes(said: str) -> set[str]:
    """Return the lines, with 0 for each number."""
    return {re.sub(r"\d+(\.\d+)?", "0", line) for line in re.split(r"[\r\n]", said)}


def test_nvbandwidth_that_may_not_bind_itself_to_the_gpus_cpus_measures_without(tmp_path: Path) -> None:
    """A job has some CPUs of the machine, maybe none near a GPU."""
    well = f"cat {RECORDED}/nvbandwidth.txt"
    tool = f'[ "$1" != -d ] || exec {well}; echo "NVML_ERROR: [Invalid Argument] in expression"; exit 1'
    assert status(tmp_path, {"nvbandwidth": tool}, "gpus 1\n", builtin="nvbandwidth", least=54) == 0


def test_a_gpu_that_died_under_gpu_burn_is_bad_though_it_is_told_to_be_well(tmp_path: Path) -> None:
    died = "10.0%%  done: 1 (9 Gflop/s) - 0 (0 Gflop/s) (DIED!)\\r"
    well = f"printf '{died}'; printf '\\tGPU %s: OK\\n' 0 1 2 3 4 5 6 7"
    tools = {"gpu_burn": f'[ "$1" != -h ] || exit 0; {well}', "slurm-check-report": REPORT}
    assert status(tmp_path, tools, builtin="gpu-burn") == 1
    assert "FAIL --measured 7 --least 8 --unit GPUs" in (tmp_path / "report").read_text()


def test_gpu_burn_needs_nvidia_smi(tmp_path: Path) -> None:
    """Without it gpu_burn ends by SIGSEGV, as if the GPUs were at fault."""
    assert "\nneed gpu_burn nvidia-smi\n" in long_checks.script(
        LongCheck(name="a", partition="main", builtin="gpu-burn")
    )


@pytest.mark.parametrize(
    ("answer", "expected"),
    [("", 0), ("faulty", 1), ("exit 127", 127), ("exit 2", 1), ("silent", 1)],
    ids=["well", "faulty", "has no library", "fails", "says nothing"],
)
def test_gpu_burn_wants_every_gpu_to_be_well(tmp_path: Path, answer: str, expected: int) -> None:
    assert status(tmp_path, {"gpu_burn": None}, scenario("gpu_burn", answer), builtin="gpu-burn") == expected


def test_gpu_burn_burns_half_of_its_time_limit_beside_its_kernel(tmp_path: Path) -> None:
    (tmp_path / "compare.fatbin").touch()
    well = '[ "$1 $(ls compare.fatbin)" = "300 compare.fatbin" ] && printf "\\tGPU %s: OK\\n" 0 1 2 3 4 5 6 7'
    assert status(tmp_path, {"gpu_burn": f'[ "$1" != -h ] || exit 0; {well}'}, builtin="gpu-burn") == 0
    assert status(tmp_path, {"gpu_burn": f'[ "$1" != -h ] || exit 0; {well}'}, builtin="gpu-burn", timeLimit="9m") == 1


@pytest.mark.parametrize(
    ("tools", "answer", "expected"),
    [
        ({}, "392.94", 0),
        ({}, "180.00", 10 + 50),
        ({}, "silent", 3),
        ({"sleep": ""}, "exit 1", 1),
        ({"srun": "exit 1"}, "392.94", 1),
        ({"srun": NO_ADDRESS}, "392.94", 3),
    ],
    ids=["fast", "slow", "says nothing", "no connection", "no other node", "no address"],
)
def test_ib_write_bw_compares_the_slowest_adapter_of_the_pod(
    tmp_path: Path, tools: dict[str, str], answer: str, expected: int
) -> None:
    ports = {"mlx5_0": "4", "mlx5_1": "14", "mlx5_without_cable": "11", "mlx5_of_another_pod": "4"}
    for number, (adapter, states) in enumerate(ports.items()):
        (tmp_path / f"sys/uverbs{number}").mkdir(parents=True)
        (tmp_path / f"sys/uverbs{number}/ibdev").write_text(f"{adapter}\n")
        for port, state in enumerate(states, start=1):
            (tmp_path / f"class/{adapter}/ports/{port}").mkdir(parents=True)
            (tmp_path / f"class/{adapter}/ports/{port}/state").write_text(f"{state}: {WORDS[state]}\n")
    (tmp_path / "dev").mkdir()
    for number in range(3):
        (tmp_path / f"dev/uverbs{number}").touch()
    there = {
        "/sys/class/infiniband_verbs": str(tmp_path / "sys"),
        "/sys/class/infiniband/": f"{tmp_path}/class/",
        "/dev/infiniband": str(tmp_path / "dev"),
    }
    fakes = {"ib_write_bw": None, "srun": f'echo "$@" >>{tmp_path}/started\n{HERE}', **tools}
    told = scenario("ib_write_bw", answer)
    assert status(tmp_path, fakes, told, there, builtin="ib-write-bw", nodes=2, least=360) == expected
    if expected == 0:
        started = (tmp_path / "started").read_text()
        assert re.findall(r"write (mlx5_\w+) (\d)$", started, re.MULTILINE) == [("mlx5_0", "1"), ("mlx5_1", "2")]


def test_a_node_without_rdma_adapters_cannot_be_judged(tmp_path: Path) -> None:
    there = {"/sys/class/infiniband_verbs": str(tmp_path / "none")}
    tools = {"ib_write_bw": None, "srun": HERE}
    assert status(tmp_path, tools, replace=there, builtin="ib-write-bw", nodes=2, least=360) == 3


@pytest.mark.parametrize(
    ("answer", "expected"), [("", 0), ("alone", 3), ("faulty", 1)], ids=["well", "no host engine", "fails"]
)
def test_dcgm_diag_is_unknown_without_its_host_engine(tmp_path: Path, answer: str, expected: int) -> None:
    assert status(tmp_path, {"dcgmi": None}, scenario("dcgmi", answer), builtin="dcgm-diag-3") == expected


def test_dcgm_diag_has_its_level(tmp_path: Path) -> None:
    tool = '[ "$1" = discovery ] || [ "$*" = "diag -r 3" ] || exit 226'
    assert status(tmp_path, {"dcgmi": tool}, builtin="dcgm-diag-3") == 0
    assert status(tmp_path, {"dcgmi": tool}, builtin="dcgm-diag-2") == 1
