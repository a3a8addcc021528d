"""A node with GPUs registers once Slurm finds all of them, and not before."""

import pytest
from slurm_node.pod import settings
from slurm_node.slurm import gpus

PREFIX = "[2026-11-21T16:07:48.611] Gres Name=gpu "
FILES = PREFIX + "Type=fake Count=4 Index=0 ID=7696487 File=/dev/fakegpu[0-3] Links=(null) Flags=HAS_FILE,HAS_TYPE"


@pytest.mark.parametrize(
    ("printed", "count"),
    [
        (FILES, 4),
        (PREFIX + "Type=h100 Count=1 Index=0 ID=7696487 File=/dev/nvidia0 Cores=0-3 Links=-1,0", 1),
        ("\n".join(PREFIX + f"Type=h100 Count=1 Index={n} File=/dev/nvidia{n} Links=(null)" for n in range(8)), 8),
        (PREFIX + "Type=fake Count=4 ID=7696487 Links=(null) Flags=HAS_TYPE", 0),
        (PREFIX + "Type=fake Count=4 ID=7696487 File=(null) Links=(null)", 0),
        ("warning: Ignoring file-less GPU gpu:fake from final GRES list", 0),
        ("", 0),
    ],
)
def test_gpus_count_that_have_a_device_file(printed: str, count: int) -> None:
    assert gpus.usable_gpus(printed) == count


def test_the_node_waits_until_all_are_found_and_says_why() -> None:
    answers = iter(["", PREFIX + "Count=3 File=/dev/nvidia[0-2]", FILES, "never asked"])
    states: list[str] = []
    gpus.wait("gpu:fake:4", lambda: next(answers), states.append, poll=0)
    assert [state[:27] for state in states] == ["Slurm finds 0 of 4 GPUs: is", "Slurm finds 3 of 4 GPUs: is"]
    assert next(answers) == "never asked"


def test_the_nodes_gres_says_how_many() -> None:
    assert settings.gpu_count("gpu:h100:8") == 8


def test_a_slurmd_that_does_not_answer_has_found_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "SLURMD_SECONDS", 0.1)
    assert gpus.usable_gpus(gpus.ask_slurmd(["sleep", "60"], {})) == 0


def test_slurmd_is_asked_not_to_register() -> None:
    assert gpus.ask_slurmd(["echo", "-Z"], {}).strip() == "-Z -G"
