"""The pod's log: one line for each sentence, whatever names stand in it."""

from __future__ import annotations

import pytest
from slurm_node.pod.log import say


@pytest.mark.parametrize(
    ("sentence", "line"),
    [
        ("the home /home/zoë is made", "the home /home/zoë is made"),
        ("made the home of eve\x1b[2J", r"made the home of eve\x1b[2J"),
        ("added eve\nslurm-node: added root", "added eve slurm-node: added root"),
        ("added \u202eeve", r"added \u202eeve"),
        (b"added eve\xff".decode(errors="surrogateescape"), r"added eve\udcff"),
    ],
)
def test_a_name_that_a_user_chose_acts_on_no_terminal_and_makes_no_second_line(
    sentence: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    say(sentence)
    assert capsys.readouterr().err == f"slurm-node: {line}\n"
