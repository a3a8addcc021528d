"""A node that is not fit for jobs gives itself none, says why, and takes them again when it is; other drains stay."""

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from slurm_node.conditions.drains import (
    LONGEST_REASON,
    Causes,
    Drain,
    NodeRecord,
    OwnDrain,
    Undrain,
    parse_record,
    plain,
    reaction,
    run_scontrol,
)

JAIL, GPUS, SPACE = "pulumi-slurm:jail", "pulumi-slurm:health gpus", "pulumi-slurm:health space"
BROKEN = {JAIL: "/run/jail is read-only"}
OURS = "pulumi-slurm:jail: /run/jail is read-only"
WELL: Causes = {JAIL: None, GPUS: None, SPACE: None}


def by_root(drained: bool, reason: str) -> NodeRecord:
    return NodeRecord(drained, reason, "root")


@pytest.mark.parametrize(
    ("causes", "node", "wanted"),
    [
        (BROKEN, by_root(False, ""), Drain(OURS)),
        (BROKEN, by_root(False, "an old reason"), Drain(OURS)),
        (BROKEN, by_root(True, OURS), None),
        (BROKEN, by_root(True, "pulumi-slurm:jail: another cause"), Drain(OURS)),
        (BROKEN, by_root(True, "a fan is broken"), None),
        (BROKEN, by_root(True, "pulumi-slurm:scale-in"), None),
        (BROKEN, by_root(True, "batch job complete failure"), Drain(OURS)),
        (BROKEN, by_root(True, "Prolog error"), Drain(OURS)),
        (BROKEN, NodeRecord(True, "Epilog error", "slurm"), Drain(OURS)),
        (BROKEN, NodeRecord(True, "Prolog error", "alice"), None),
        (BROKEN, by_root(True, "pulumi-slurm:new"), Drain(OURS)),
        (WELL, by_root(True, "pulumi-slurm:new"), None),
        (WELL, by_root(True, OURS), Undrain()),
        (WELL, NodeRecord(True, OURS, "alice"), None),
        (BROKEN, NodeRecord(True, "pulumi-slurm:jail: another cause", "alice"), None),
        (WELL, by_root(False, OURS), None),
        (WELL, by_root(True, "a fan is broken"), None),
        (WELL, by_root(True, "pulumi-slurm:scale-in"), None),
        (WELL, by_root(True, "pulumi-slurm:healthy"), None),
        (WELL, by_root(True, "batch job complete failure"), None),
        # The first that speaks against the node gives the reason; when it is repaired, the next one does.
        ({JAIL: None, GPUS: "3 of 4", SPACE: "full"}, by_root(False, ""), Drain(f"{GPUS}: 3 of 4")),
        ({JAIL: None, GPUS: None, SPACE: "full"}, by_root(True, f"{GPUS}: 3 of 4"), Drain(f"{SPACE}: full")),
        ({JAIL: None, GPUS: "3 of 4"}, by_root(True, f"{GPUS}: 3 of 4"), None),
        (WELL, by_root(True, f"{GPUS}: 3 of 4"), Undrain()),
        # The operator's, for a long check: the node's own checks can't see that fault.
        (WELL, NodeRecord(True, "pulumi-slurm:health long all-reduce: job 7 TIMEOUT", "slurm"), None),
        (BROKEN, NodeRecord(True, "pulumi-slurm:health long all-reduce: job 7 TIMEOUT", "slurm"), None),
        # A check of which nothing is known is no reason to drain, and none to lift a drain.
        ({JAIL: None}, by_root(False, ""), None),
        ({JAIL: None}, by_root(True, f"{GPUS}: 3 of 4"), None),
        ({JAIL: None, SPACE: "full"}, by_root(True, f"{GPUS}: 3 of 4"), None),
        ({}, by_root(True, OURS), None),
        # In a new pod a check that passes again does not show that a job could run: a test step does.
        ({GPUS: None, SPACE: None}, by_root(True, f"{GPUS}: 3 of 4"), None),
        ({GPUS: "2 of 4"}, by_root(False, ""), Drain(f"{GPUS}: 2 of 4")),
    ],
)
def test_a_drain_is_set_once_and_only_ours_is_lifted(
    causes: Causes, node: NodeRecord, wanted: Drain | Undrain | None
) -> None:
    assert reaction(causes, node) == wanted


def test_a_record_is_read_as_scontrol_prints_it() -> None:
    line = (
        "NodeName=cpu-0 State=IDLE+DRAIN+DYNAMIC_NORM Weight=1 Reason=pulumi-slurm:jail: a b [root@2026-11-21T15:00:00]"
    )
    assert parse_record(line + " \n") == by_root(True, "pulumi-slurm:jail: a b")
    assert parse_record(f"{line} Comment=rack 7 Extra=a [b@c] \n") == by_root(True, "pulumi-slurm:jail: a b")
    assert parse_record("NodeName=cpu-0 State=IDLE Weight=1 \n") == NodeRecord(False, "", "")


@pytest.mark.parametrize("state", ["IDLE+FAIL+DYNAMIC_NORM", "DOWN+DYNAMIC_NORM", "DOWN*+DRAIN+DYNAMIC_NORM"])
def test_a_node_that_somebody_set_to_fail_or_down_keeps_his_reason(state: str) -> None:
    record = parse_record(f"NodeName=cpu-0 State={state} Weight=1 Reason=rma-123 [root@2026-11-21T15:00:00] \n")
    assert reaction({"pulumi-slurm:jail": "stale"}, record) is None
    assert reaction({"pulumi-slurm:jail": None}, record) is None


def test_a_node_that_is_down_since_it_was_silent_may_say_what_it_lacks() -> None:
    record = parse_record("NodeName=cpu-0 State=DOWN* Reason=Not responding [slurm@2026-11-21T15:00:00] \n")
    assert reaction({"pulumi-slurm:jail": "stale"}, record) == Drain("pulumi-slurm:jail: stale")


def test_a_reason_that_is_no_text_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    real = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda _, **how: real(["printf", r"Reason=d\351fectueux"], **how))
    assert run_scontrol("-o", "show", "node", "n") == "Reason=d\ufffdfectueux"


def test_a_sentence_becomes_one_line_that_slurm_takes() -> None:
    assert plain('a "b"\n\tc é') == "a 'b' c"


@given(st.text(min_size=1, max_size=400))
@example("no space left [alice@2026-01-01T00:00:00]")
@example("x" * 199 + "\u2028y")
def test_whatever_a_check_says_a_drains_reason_is_one_printable_line_that_stays_the_nodes_own(said: str) -> None:
    drained = reaction({JAIL: None, SPACE: said}, by_root(False, ""))
    assert isinstance(drained, Drain)
    assert re.fullmatch(r"pulumi-slurm:health space: [ -~]*", drained.reason)
    assert len(drained.reason) <= LONGEST_REASON
    shown = f"NodeName=cpu-0 State=IDLE+DRAIN Reason={drained.reason} [root@2026-01-01T00:00:00]"
    assert parse_record(shown) == by_root(True, drained.reason), "else the node would never lift it"


class Slurmctld:
    """Answers scontrol for one node."""

    def __init__(self) -> None:
        self.up = True
        self.state, self.reason = "IDLE", ""
        self.user = "root"
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
        shown = f"Reason={self.reason} [{self.user}@2026-11-21T15:00:00]" if self.reason else ""
        return f"NodeName=n State={self.state} {shown}\n"


@pytest.fixture
def slurmctld() -> Slurmctld:
    return Slurmctld()


def test_nothing_is_asked_of_slurmctld_while_nothing_changes(slurmctld: Slurmctld) -> None:
    drain = OwnDrain("n", slurmctld)
    for second in range(1000):
        drain.tick(float(second), WELL)
    assert slurmctld.calls == [("-o", "show", "node", "n")]


def test_a_drain_left_by_the_pod_before_is_lifted(slurmctld: Slurmctld) -> None:
    slurmctld.state, slurmctld.reason = "IDLE+DRAIN", OURS
    OwnDrain("n", slurmctld).tick(1.0, WELL)
    assert slurmctld.state == "IDLE"


def test_a_drain_is_told_when_slurmctld_answers_again(slurmctld: Slurmctld) -> None:
    slurmctld.up = False
    drain = OwnDrain("n", slurmctld)
    drain.tick(1.0, BROKEN)
    slurmctld.up = True
    drain.tick(2.0, BROKEN)
    assert slurmctld.calls == []
    drain.tick(12.0, BROKEN)
    assert slurmctld.reason == OURS


def test_a_node_that_somebody_undrains_is_drained_again_while_it_is_not_fit(slurmctld: Slurmctld) -> None:
    drain = OwnDrain("n", slurmctld)
    drain.tick(1.0, BROKEN)
    slurmctld.state, slurmctld.reason = "IDLE", ""
    drain.tick(2.0, BROKEN)
    assert slurmctld.state == "IDLE"
    drain.tick(32.0, BROKEN)
    assert (slurmctld.state, slurmctld.reason) == ("IDLE+DRAIN", OURS)


def test_a_drain_of_somebody_else_outlives_a_failure_and_its_end(slurmctld: Slurmctld) -> None:
    slurmctld.state, slurmctld.reason = "IDLE+DRAIN", "a fan is broken"
    drain = OwnDrain("n", slurmctld)
    for second, causes in enumerate((WELL, BROKEN, WELL)):
        drain.tick(float(second), causes)
    assert (slurmctld.state, slurmctld.reason) == ("IDLE+DRAIN", "a fan is broken")


@pytest.mark.parametrize("reason", ["Prolog error", "Epilog error", "batch job complete failure"])
@pytest.mark.parametrize("written", ["/run/jail is read-only", "pulumi-slurm:health gpus: 3 of 4; and more\n"])
def test_slurms_drain_for_a_job_that_we_refused_is_lifted_also_when_it_comes_after_the_cause_is_gone(
    slurmctld: Slurmctld, tmp_path: Path, written: str, reason: str
) -> None:
    drain = OwnDrain("n", slurmctld, tmp_path / "refused")
    drain.tick(1.0, WELL)
    (tmp_path / "refused").write_text(written)
    drain.tick(2.0, WELL)
    slurmctld.state, slurmctld.reason = "IDLE+DRAIN", reason
    drain.tick(20.0, {JAIL: None})
    assert "DRAIN" in slurmctld.state, "no probe may have been made since"
    drain.tick(55.0, {JAIL: None})
    assert ("DRAIN" in slurmctld.state) == ("gpus" in written), "nobody knows of the GPUs"
    drain.tick(90.0, WELL)
    assert slurmctld.state == "IDLE"
    slurmctld.state, slurmctld.reason = "IDLE+DRAIN", "a fan is broken"
    drain.tick(130.0, WELL)
    assert slurmctld.reason == "a fan is broken"


@pytest.mark.parametrize("reason", ["Prolog error", "Epilog error", "batch job complete failure"])
@pytest.mark.parametrize(("user", "kept"), [("slurm", OURS), ("alice", "")])
def test_the_cause_stands_in_place_of_slurms_words_for_a_job_that_it_refused_but_never_of_a_persons(
    slurmctld: Slurmctld, tmp_path: Path, reason: str, user: str, kept: str
) -> None:
    drain = OwnDrain("n", slurmctld, tmp_path / "refused")
    drain.tick(1.0, BROKEN)
    (tmp_path / "refused").write_text(OURS)
    drain.tick(40.0, BROKEN)
    slurmctld.state, slurmctld.reason, slurmctld.user = "IDLE+DRAIN", reason, user
    drain.tick(61.0, BROKEN)
    assert slurmctld.reason == (kept or reason)
    drain.tick(95.0, WELL)
    assert ("DRAIN" in slurmctld.state) == (user == "alice")


def test_slurms_drain_for_a_prolog_or_an_epilog_of_others_stays(slurmctld: Slurmctld, tmp_path: Path) -> None:
    drain = OwnDrain("n", slurmctld, tmp_path / "refused")
    (tmp_path / "refused").write_text("/run/jail is read-only")
    drain.tick(1.0, WELL)
    for reason in ("Prolog error", "Epilog error"):
        slurmctld.state, slurmctld.reason = "IDLE+DRAIN", reason
        for second in range(302, 400):
            drain.tick(float(second), WELL)
        assert slurmctld.reason == reason
