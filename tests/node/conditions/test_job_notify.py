"""Jobs whose next step Slurm would not start in the jail are told why, once, in words."""

from pathlib import Path

import pytest
from slurm_node.conditions.job_notify import ROUND_SECONDS, WORDS, JobNotifier

WHY = "plugstack.conf has no line 'required"


class Node:
    """Jobs on a node, and what scontrol was asked to do."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked, self.now, self.takes = folder, list[tuple[str, ...]](), 0.0, 0.0
        self.notices = JobNotifier(self.scontrol, folder, lambda: self.now)

    def scontrol(self, *words: str) -> str | None:
        self.asked.append(words)
        self.now += self.takes
        return None

    def has(self, *jobs: str) -> None:
        for there in self.folder.iterdir():
            there.unlink()
        for job in jobs:
            (self.folder / job).touch()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def notice(job: str, why: str = WHY) -> tuple[str, ...]:
    return ("notify", job, WORDS.format(why))


def test_each_job_is_told_once_and_one_that_comes_later_too(node: Node) -> None:
    node.has("0", "7", "8")  # 0 is a jail probe's
    for _ in range(3):
        node.notices.tick(WHY)
    assert node.asked == [notice("7"), notice("8")]
    node.has("8", "9")
    node.notices.tick(WHY)
    assert node.asked[2:] == [notice("9")]


def test_nobody_is_told_anything_while_slurm_would_load_the_plugin(node: Node) -> None:
    node.has("7")
    node.notices.tick(None)
    assert node.asked == []
    node.notices.tick(WHY)
    node.notices.tick(None)
    node.notices.tick("another cause")
    assert node.asked == [notice("7"), notice("7", "another cause")]


def test_a_slurmctld_that_is_away_holds_a_node_up_once_and_the_others_are_told_later(node: Node) -> None:
    node.has("7", "8", "9")
    node.takes = ROUND_SECONDS
    node.notices.tick(WHY)
    assert node.asked == [notice("7")]
    node.takes = 0.0
    node.notices.tick(WHY)
    assert node.asked[1:] == [notice("8"), notice("9")]


def test_a_node_without_jobs_has_nobody_to_tell(tmp_path: Path) -> None:
    node = Node(tmp_path / "not made yet")
    node.notices.tick(WHY)
    assert node.asked == []
