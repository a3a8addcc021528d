"""A node registers once Slurm finds all of its devices, and not before."""

import pytest
from slurm_node.pod import settings
from slurm_node.slurm import gres

LINE = "[2026-11-21T16:07:48.611] Gres Name="
PREFIX = f"{LINE}gpu "
FILES = PREFIX + "Type=fake Count=4 Index=0 ID=7696487 File=/dev/fakegpu[0-3] Links=(null) Flags=HAS_FILE,HAS_TYPE"
COUNTED = f"{LINE}bandwidth Type=(null) Count=4096 ID=3637693249 Links=(null)"
SHARDS = "\n".join(
    f"{LINE}shard Type=h100 Count=32 Index={n} ID=1918986455 File=/dev/nvidia{n} Cores= CoreCnt=2 Links=(null)"
    for n in range(2)
)
FPGAS = f"{LINE}fpga Type=u280 Count=2 Index=0 ID=1634168934 File=/dev/fpga[0-1] Links=(null) Flags=HAS_FILE,HAS_TYPE"
MIG = PREFIX + "Type=1g.10gb Count=1 Index=0 ID=7696487 File=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap[1-2] Links=(null)"
"""Lines that slurmd 26.05.5 prints."""


@pytest.mark.parametrize(
    ("printed", "counts"),
    [
        (FILES, {"gpu": 4}),
        (PREFIX + "Type=h100 Count=1 Index=0 ID=7696487 File=/dev/nvidia0 Cores=0-3 Links=-1,0", {"gpu": 1}),
        (
            "\n".join(PREFIX + f"Type=h100 Count=1 Index={n} File=/dev/nvidia{n} Links=(null)" for n in range(8)),
            {"gpu": 8},
        ),
        (PREFIX + "Type=fake Count=4 ID=7696487 Links=(null) Flags=HAS_TYPE", {}),
        (PREFIX + "Type=fake Count=4 ID=7696487 File=(null) Links=(null)", {}),
        ("warning: Ignoring file-less GPU gpu:fake from final GRES list", {}),
        (f"{MIG}\n{MIG}", {"gpu": 2}),
        (f"{SHARDS}\n{FPGAS}\n{COUNTED}", {"shard": 64, "fpga": 2, "bandwidth": 4096}),
        (FPGAS.replace("File=/dev/fpga[0-1] ", ""), {}),
        ("", {}),
    ],
)
def test_what_has_device_files_counts_with_them_alone(printed: str, counts: dict[str, int]) -> None:
    assert gres.usable(printed, frozenset({"gpu", "fpga"})) == counts


def test_the_node_waits_until_all_are_found_and_says_why() -> None:
    some = PREFIX + "Count=3 File=/dev/nvidia[0-2]"
    answers = iter(["", some, f"{some}\n{FPGAS}", f"{FILES}\n{FPGAS}", "never asked"])
    states: list[str] = []
    wanted = {"gpu": 4, "fpga": 2}
    gres.wait(wanted, frozenset(wanted), lambda: next(answers), states.append, poll=0)
    assert [state.partition(": ")[0] for state in states] == [
        "Slurm finds 0 of 4 GPUs, 0 of 2 fpga",
        "Slurm finds 3 of 4 GPUs, 0 of 2 fpga",
        "Slurm finds 3 of 4 GPUs",
    ]
    assert next(answers) == "never asked"


def test_the_nodes_gres_says_how_many() -> None:
    assert settings.gres_counts("gpu:h100:8") == {"gpu": 8}
    assert settings.gres_counts("gpu:h100:2,gpu:l40s:4,shard:64,fpga:1") == {"gpu": 6, "shard": 64, "fpga": 1}
    assert settings.gres_counts("") == {}


def test_a_slurmd_that_does_not_answer_has_found_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gres, "SLURMD_SECONDS", 0.1)
    assert gres.usable(gres.ask_slurmd(["sleep", "60"], {}), frozenset()) == {}


def test_slurmd_is_asked_not_to_register() -> None:
    assert gres.ask_slurmd(["echo", "-Z"], {}).strip() == "-Z -G"
