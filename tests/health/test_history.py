"""Since when a check says what it says, and how `node-health explain` tells it."""

from pathlib import Path

import pytest
from node_health import __main__ as command
from node_health import explain, history, node, report
from node_health.explain import Known
from node_health.history import Change, History
from node_health.report import Report
from node_health.sources.tool import Answered
from node_health.verdict import Action, Finding, Result, Verdict

RECORD = (
    "NodeName=gpu-0 Arch=x86_64 State=IDLE+DRAIN+DYNAMIC_NORM Partitions=main "
    "Reason=pulumi-slurm:health gpus: 7 of 8 GPUs answer [root@2026-11-26T12:00:31] "
    "Extra=pulumi-slurm:failed gpus, well at 2026-11-26T12:00:00Z, found at 2026-11-26T12:00:30Z\n"
)
LOST = Result("gpus", Finding(Verdict.FAIL, "7 of 8 GPUs answer"), "replace it", Action.RESTART_BM, 0.25)


def test_help_names_both_forms_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--help"])
    assert "node-health explain [NODE]" in capsys.readouterr().out


def run(at: float, *results: tuple[str, Verdict, str], **skipped: str) -> Report:
    return Report(tuple(Result(check, Finding(verdict, words)) for check, verdict, words in results), skipped, at)


def after(*runs: Report) -> History:
    told = History()
    for made in runs:
        told = history.followed(told, made)
    return told


def test_a_change_has_the_time_of_its_first_run_and_of_the_run_before() -> None:
    told = after(
        run(100, ("gpus", Verdict.PASS, "8")),
        run(130, ("gpus", Verdict.FAIL, "7 of 8")),
        run(160, ("gpus", Verdict.FAIL, "6 of 8")),
    )
    assert told.latest["gpus"] == Change("gpus", Verdict.FAIL, "6 of 8", 130, 100)
    assert told.changes == (Change("gpus", Verdict.FAIL, "7 of 8", 130, 100),)
    recovered = history.followed(told, run(190, ("gpus", Verdict.PASS, "8")))
    assert [change.verdict for change in recovered.changes] == [Verdict.FAIL, Verdict.PASS]


def test_a_run_without_the_check_says_nothing_about_it_and_a_skipped_one_has_no_verdict() -> None:
    told = after(run(100, ("gpus", Verdict.PASS, "8")), run(110, ("dns", Verdict.PASS, "well")))
    assert history.followed(told, run(130, ("gpus", Verdict.FAIL, "7"))).latest["gpus"].before == 100
    assert "gpus" not in history.followed(told, run(130, gpus="switched off")).latest


def test_the_history_has_a_bound_and_survives_being_written_down(tmp_path: Path) -> None:
    flapping = (run(float(at), ("dns", [Verdict.PASS, Verdict.WARNING][at % 2], str(at))) for at in range(1000))
    told = after(*flapping)
    assert (len(told.changes), told.changes[-1].at) == (history.MOST, 999)
    history.write(told, tmp_path / "history")
    assert history.read(tmp_path / "history") == told
    (tmp_path / "history").write_text('{"looked": 3}')
    assert history.read(tmp_path / "history") == History()


def test_each_run_for_slurm_is_followed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("FOLDER", "LOCK", "RESULTS", "UNFIT", "HISTORY"):
        monkeypatch.setattr(node, name, tmp_path if name == "FOLDER" else tmp_path / name)
    monkeypatch.setattr(report, "write", lambda *given: None)
    monkeypatch.setattr(node, "read", node.Declared)
    for made in (run(100, ("gpus", Verdict.PASS, "8")), run(130, ("gpus", Verdict.FAIL, "7"))):
        monkeypatch.setattr(command, "run", lambda context=None, made=made: made)
        assert command.main(["--record"]) == 0
    assert history.read(tmp_path / "HISTORY").latest["gpus"] == Change("gpus", Verdict.FAIL, "7", 130, 100)


def test_it_is_explained_what_is_wrong_since_when_what_drains_and_who_lifts_that() -> None:
    began = 1_795_694_430.0
    told = after(run(began - 30, ("gpus", Verdict.PASS, "8")), Report((LOST,), {"nvme": "no NVMe"}, began))
    passed = Result("dns", Finding(Verdict.PASS, "well"), seconds=0.5)
    found = Report((passed, LOST), {"nvme": "no NVMe"}, began + 300)
    assert [*explain.lines(Known("gpu-0", RECORD, found, told), began + 312)] == [
        "gpu-0: IDLE+DRAIN+DYNAMIC_NORM",
        "  pulumi-slurm:health gpus: 7 of 8 GPUs answer",
        "  set by root at 2026-11-26T12:00:31; the node lifts it when this check did not fail, or is made no more",
        "  Extra: pulumi-slurm:failed gpus, well at 2026-11-26T12:00:00Z, found at 2026-11-26T12:00:30Z",
        "FAIL: the last run ended 12 s ago, at 2026-11-26T12:05:30Z",
        "FAIL    gpus: 7 of 8 GPUs answer",
        "        since 2026-11-26T12:00:30Z, for 5 min 12 s; not so in the run at 2026-11-26T12:00:00Z",
        "        remedy: replace it (RESTART_BM)",
        "1 checks pass, 1 are skipped; the slowest: dns 0.500 s, gpus 0.250 s",
        "SKIPPED nvme: no NVMe",
        "changes, the latest first:",
        "  2026-11-26T12:00:30Z FAIL gpus: 7 of 8 GPUs answer",
    ]


@pytest.mark.parametrize(
    ("reason", "who"),
    [
        (
            "pulumi-slurm:health long all-reduce: job 8 FAILED, exit status 63: 215 GB/s of at least 400; a (slow) GPU",
            "when the check passed again (returnAfterPasses), or a person: kubectl -n",
        ),
        ("pulumi-slurm:jail: storage hangs", "the node lifts it when a test step"),
        ("pulumi-slurm:repair health gpus: 7 of 8", "the operator lifts it when the repaired node works"),
        ("pulumi-slurm:update", "the operator lifts it when its work is done"),
        (
            "new fan",
            "whoever set it lifts it: kubectl -n hpc exec slurm-controller-0 -- "
            "scontrol update nodename=gpu-0 state=undrain",
        ),
    ],
)
def test_it_is_explained_who_lifts_a_drain(reason: str, who: str) -> None:
    record = f"NodeName=gpu-0 State=IDLE+DRAIN Reason={reason} [alice@2026-11-26T12:00:31] Comment=x"
    said = [*explain.of_record(Known("gpu-0", record, namespace="hpc"))]
    assert f"  {reason}" in said
    assert any(who in line for line in said)


def test_without_an_answer_or_a_run_it_says_so(capsys, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(node, "RESULTS", tmp_path / "none")
    monkeypatch.setattr(explain.socket, "gethostname", lambda: "gpu-0")
    monkeypatch.setattr(explain.tool, "run", lambda machine, asked: Answered(124))
    assert command.main(["explain"]) == explain.NOTHING
    assert capsys.readouterr().out.splitlines() == [
        "gpu-0: slurmctld does not answer",
        "no run of node-health has ended in this container",
    ]


def test_of_another_node_it_tells_what_slurmctld_knows_and_where_to_look(
    capsys, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(explain.socket, "gethostname", lambda: "cpu-0")
    resolver = tmp_path / "resolv.conf"
    resolver.write_text("nameserver 10.96.0.10\nsearch hpc.svc.cluster.local svc.cluster.local example.org\n")
    monkeypatch.setattr(explain, "_RESOLVER", resolver)
    monkeypatch.setattr(explain.tool, "run", lambda machine, asked: Answered(0, RECORD if asked[-1] == "gpu-0" else ""))
    assert command.main(["explain", "gpu-0"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "gpu-0: IDLE+DRAIN+DYNAMIC_NORM"
    assert said[-1] == "its checks run in its own pod: kubectl -n hpc exec gpu-0 -- node-health explain"


@pytest.mark.parametrize(
    ("seconds", "words"), [(-1, "0 s"), (59, "59 s"), (61, "1 min 1 s"), (3600, "1 h"), (90_061, "1 d 1 h")]
)
def test_spans_have_two_units(seconds: float, words: str) -> None:
    assert explain.span(seconds) == words
