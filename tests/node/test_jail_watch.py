"""A node whose jail does not work gives itself no jobs, says why, and takes them again when it works."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from slurm_node.jail_watch import Drain, JailWatch, NodeRecord, Undrain, parse_record, plain, reaction

BROKEN = "/run/jail is read-only"
OURS = f"pulumi-slurm:jail: {BROKEN}"


@pytest.mark.parametrize(
    ("sentence", "node", "wanted"),
    [
        (BROKEN, NodeRecord(False, ""), Drain(OURS)),
        (BROKEN, NodeRecord(False, "an old reason"), Drain(OURS)),
        (BROKEN, NodeRecord(True, OURS), None),
        (BROKEN, NodeRecord(True, "pulumi-slurm:jail: another cause"), Drain(OURS)),
        (BROKEN, NodeRecord(True, "a fan is broken"), None),
        (BROKEN, NodeRecord(True, "pulumi-slurm:scale-in"), None),
        (BROKEN, NodeRecord(True, "batch job complete failure"), Drain(OURS)),
        (None, NodeRecord(True, OURS), Undrain()),
        (None, NodeRecord(False, OURS), None),
        (None, NodeRecord(True, "a fan is broken"), None),
        (None, NodeRecord(True, "pulumi-slurm:scale-in"), None),
        (None, NodeRecord(True, "batch job complete failure"), None),
    ],
)
def test_a_drain_is_set_once_and_only_ours_is_lifted(
    sentence: str | None, node: NodeRecord, wanted: Drain | Undrain | None
) -> None:
    assert reaction(sentence, node) == wanted


def test_a_record_is_read_as_scontrol_prints_it() -> None:
    line = (
        "NodeName=cpu-0 State=IDLE+DRAIN+DYNAMIC_NORM Weight=1 Reason=pulumi-slurm:jail: a b [root@2026-11-21T15:00:00]"
    )
    assert parse_record(line + " \n") == NodeRecord(True, "pulumi-slurm:jail: a b")
    assert parse_record("NodeName=cpu-0 State=IDLE Weight=1 \n") == NodeRecord(False, "")


def test_a_sentence_becomes_one_line_that_slurm_takes() -> None:
    assert plain('a "b"\n\tc é') == "a 'b' c"


class Slurmctld:
    """Answers scontrol for one node."""

    def __init__(self) -> None:
        self.up = True
        self.state, self.reason = "IDLE", ""
        self.calls: list[tuple[str, ...]] = []

    def __call__(self, *arguments: str) -> str | None:
        if not self.up:
            return None
        self.calls.append(arguments)
        for change in arguments[1:]:
            match change.split("=", 1):
                case ["state", "drain"]:
                    self.state = "IDLE+DRAIN"
                case ["state", "undrain"]:
                    self.state, self.reason = "IDLE", ""
                case ["reason", reason]:
                    self.reason = reason
        shown = f"Reason={self.reason} [root@2026-11-21T15:00:00]" if self.reason else ""
        return f"NodeName=n State={self.state} {shown}\n"


class Trial:
    """A watch over a trial that a test's file decides."""

    def __init__(self, folder: Path) -> None:
        self.slurmctld = Slurmctld()
        self._script = folder / "script"
        self.now = 0.0
        self.broken = folder / "broken"
        self.says("exit 0")
        self.watch = JailWatch("n", ("/bin/sh", str(self._script)), self.slurmctld, self.broken)

    def says(self, script: str) -> None:
        self._script.write_text(script)

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < deadline, (self.watch.sentence, self.slurmctld.calls)
            self.now += 0.5
            self.watch.tick(self.now)
            time.sleep(0.01)


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    return Trial(tmp_path)


def test_a_node_is_drained_with_the_reason_and_recovers_by_itself(trial: Trial) -> None:
    trial.says("echo storage is gone; exit 1")
    trial.until(lambda: "DRAIN" in trial.slurmctld.state)
    assert trial.slurmctld.reason == "pulumi-slurm:jail: storage is gone"
    assert trial.broken.read_text() == "storage is gone"
    trial.says("exit 0")
    trial.until(lambda: trial.slurmctld.state == "IDLE")
    assert not trial.broken.exists()
    assert trial.watch.sentence is None


def test_nothing_is_asked_of_slurmctld_while_nothing_changes(trial: Trial) -> None:
    trial.until(lambda: trial.watch.tried and bool(trial.slurmctld.calls))
    before = len(trial.slurmctld.calls)
    for _ in range(200):
        trial.now += 0.1
        trial.watch.tick(trial.now)
        time.sleep(0.01)
    assert len(trial.slurmctld.calls) == before


def test_a_drain_left_by_the_pod_before_is_lifted(trial: Trial) -> None:
    trial.slurmctld.state, trial.slurmctld.reason = "IDLE+DRAIN", OURS
    trial.until(lambda: trial.slurmctld.state == "IDLE")


def test_a_drain_is_told_when_slurmctld_answers_again(trial: Trial) -> None:
    trial.slurmctld.up = False
    trial.says("echo gone; exit 1")
    trial.until(lambda: trial.watch.sentence == "gone" and trial.now > 30)
    trial.slurmctld.up = True
    trial.until(lambda: "DRAIN" in trial.slurmctld.state)


def test_a_trial_that_hangs_is_left_alone_and_no_second_one_started(trial: Trial, tmp_path: Path) -> None:
    started, gate = tmp_path / "started", tmp_path / "gate"
    trial.says(f"echo x >> {started}; echo it hangs; while [ ! -e {gate} ]; do sleep 0.05; done; exit 1")
    trial.until(lambda: "DRAIN" in trial.slurmctld.state)
    for _ in range(100):
        trial.now += 1
        trial.watch.tick(trial.now)
    assert started.read_text() == "x\n"
    trial.says("exit 0")
    gate.touch()
    trial.until(lambda: trial.slurmctld.state == "IDLE")


def test_a_trial_that_says_nothing_for_long_counts_as_broken(trial: Trial, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    trial.says(f"while [ ! -e {gate} ]; do sleep 0.05; done")
    trial.until(lambda: "DRAIN" in trial.slurmctld.state)
    assert "takes longer" in trial.slurmctld.reason
    gate.touch()
    trial.until(lambda: trial.slurmctld.state == "IDLE")
