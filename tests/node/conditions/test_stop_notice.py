"""A slurmd that must stop still vouches for the scontrol that drains its node and tells its jobs."""

from pathlib import Path

import pytest
from slurm_node.conditions.drains import OwnDrain
from slurm_node.conditions.job_notify import JobNotifier
from slurm_node.conditions.stop_notice import TELL_SECONDS, StopNotice
from slurm_node.pod import paths
from slurm_node.slurm import configless_cache


class Node:
    """A node whose slurmd fetched a configuration without the plugin; `vouches` says whether scontrol works."""

    def __init__(self, folder: Path) -> None:
        self.vouches, self.said = False, list[str]()
        self.conf = folder / "conf"
        self.conf.mkdir()
        self.fetch("optional x\n")
        jobs = folder / "jobs"
        jobs.mkdir()
        (jobs / "7").touch()
        self.notice = StopNotice(
            configless_cache.Judge(self.conf).refusal,
            OwnDrain("n", self.scontrol, folder / "refused"),
            JobNotifier(self.scontrol, jobs),
            lambda: configless_cache.refusal(configless_cache.read(self.conf) or {}) is None,
        )

    def fetch(self, plugstack: str) -> None:
        (self.conf / "slurm.conf").write_text("ClusterName=x\n")
        (self.conf / "plugstack.conf").unlink(missing_ok=True)
        (self.conf / "plugstack.conf").write_text(plugstack)

    def scontrol(self, *words: str) -> str | None:
        if not self.vouches:
            return None
        self.said.append(words[0] if words[0] != "-o" else "show")
        return "NodeName=n State=IDLE\n"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_slurmd_stops_once_its_node_is_drained_and_its_jobs_are_told(node: Node) -> None:
    assert node.notice.refusal(0.0, 100.0) is None, "slurmd has not opened its socket again"
    assert node.notice.refusal(0.5, 100.5) is None
    node.vouches = True
    said = node.notice.refusal(1.0, 101.0)
    assert said
    assert "plugstack.conf has no line" in said
    assert node.said == ["show", "update", "notify"]


def test_a_new_slurmd_that_is_refused_for_what_it_fetched_again_is_asked_until_it_vouches(node: Node) -> None:
    assert node.notice.refusal(0.0, 0.3) is None
    node.vouches = True
    assert node.notice.refusal(0.5, 0.8) is not None


def test_a_node_that_somebody_undrained_meanwhile_is_drained_again_by_its_next_slurmd(node: Node) -> None:
    node.vouches = True
    assert node.notice.refusal(0.0, 100.0) is not None
    node.vouches = False
    node.fetch("optional x\n")
    assert node.notice.refusal(40.0, 0.3) is None, "what was told of the slurmd before does not count"
    node.vouches = True
    assert node.notice.refusal(40.5, 0.8) is not None
    assert node.said.count("update") == 2


def test_slurmd_stops_in_time_though_slurmctld_is_away(node: Node) -> None:
    assert node.notice.refusal(0.0, 100.0) is None
    assert node.notice.refusal(TELL_SECONDS, 115.0) is not None
    assert node.said == []


def test_slurmd_goes_on_if_the_configuration_is_right_again_meanwhile(node: Node) -> None:
    assert node.notice.refusal(0.0, 100.0) is None
    node.fetch(f"required {paths.PLUGIN} jail=/run/jail\n")
    assert node.notice.refusal(0.5, 100.5) is None
    assert node.notice.refusal(TELL_SECONDS, 115.0) is None
