"""A note on the Slurm node for what health checks warn of."""

import datetime

import pytest
from node_health import notes
from slurm_node.conditions.node_extra import NodeExtra
from slurm_operator.decide.nodes.notes import Note, read

HOT = {"gpus": "5 GPUs, 4 declared"}
NOTE = "pulumi-slurm:warning gpus: 5 GPUs, 4 declared"
NOON = datetime.datetime(2026, 11, 26, 12, tzinfo=datetime.UTC)


class Slurmctld:
    """One record, as scontrol shows and changes it."""

    def __init__(self) -> None:
        self.up, self.extra = True, ""
        self.changes: list[tuple[str, ...]] = []

    def __call__(self, *arguments: str) -> str | None:
        if not self.up:
            return None
        if arguments[0] == "update":
            self.changes.append(arguments)
            self.extra = arguments[-1].removeprefix("extra=")
        return f"NodeName=n State=IDLE {f'Extra={self.extra} ' if self.extra else ''}Partitions=main\n"


@pytest.fixture
def slurmctld() -> Slurmctld:
    return Slurmctld()


def test_a_warning_is_noted_once_whatever_its_numbers_do_and_taken_back_and_never_drains(slurmctld: Slurmctld) -> None:
    note = NodeExtra("n", slurmctld)
    note.tick(0.0, None)
    assert slurmctld.changes == []
    for second in range(20, 200):
        note.tick(float(second), {"gpus": HOT["gpus"] if second == 20 else f"{second} GPUs"})
    assert slurmctld.extra == NOTE
    note.tick(300.0, {})
    assert slurmctld.changes == [("update", "nodename=n", f"extra={NOTE}"), ("update", "nodename=n", "extra=")]


def test_without_warnings_nothing_is_written(slurmctld: Slurmctld) -> None:
    NodeExtra("n", slurmctld).tick(20.0, {})
    assert slurmctld.changes == []


def test_a_note_left_by_the_pod_before_goes(slurmctld: Slurmctld) -> None:
    slurmctld.extra = NOTE
    NodeExtra("n", slurmctld).tick(20.0, {})
    assert slurmctld.extra == ""


def test_what_somebody_else_wrote_there_stays(slurmctld: Slurmctld) -> None:
    slurmctld.extra = "rack 7"
    note = NodeExtra("n", slurmctld)
    note.tick(20.0, HOT)
    note.tick(40.0, {})
    assert (slurmctld.extra, slurmctld.changes) == ("rack 7", [])


def test_it_is_told_when_slurmctld_answers_again(slurmctld: Slurmctld) -> None:
    slurmctld.up = False
    note = NodeExtra("n", slurmctld)
    note.tick(20.0, HOT)
    slurmctld.up = True
    note.tick(21.0, HOT)
    assert slurmctld.extra == ""
    note.tick(31.0, HOT)
    assert slurmctld.extra == NOTE


def test_since_when_a_check_fails_is_noted_before_what_warns(slurmctld: Slurmctld) -> None:
    failed = notes.failed("gpus", "2026-11-26T12:00:00Z", "2026-11-26T12:00:30Z")
    note = NodeExtra("n", slurmctld)
    note.tick(20.0, {}, failed)
    assert slurmctld.extra == failed
    note.tick(21.0, {"clock": "late"}, failed)
    assert slurmctld.extra == f"{failed}; pulumi-slurm:warning clock: late"
    found = NOON + datetime.timedelta(seconds=30)
    assert read(slurmctld.extra) == Note("gpus", NOON, found, warned="clock: late")
    note.tick(60.0, {})
    assert slurmctld.extra == ""


def test_programs_read_which_checks_did_not_pass_between_other_facts_and_words() -> None:
    quiet = notes.quiet({7: "2026-11-26T12:00:00Z"})
    said = notes.checks({"clock": "UNKNOWN", "gpu power": "WARNING"}, 2.5, "dns")
    assert said == "pulumi-slurm:checks UNKNOWN clock, WARNING gpu power, took 5 s (dns)"
    assert notes.checks({}, 2.0, "dns") == ""
    note = read(notes.joined((quiet, said, "pulumi-slurm:warning clock: late; gpus: FAIL gpus")))
    assert note.verdicts == {"clock": "UNKNOWN", "gpu power": "WARNING"}
    assert (note.seconds, note.slowest) == (5, "dns")
    assert (note.quiet, note.warned) == ({7: NOON}, "clock: late; gpus: FAIL gpus")
    assert read(notes.checks({}, 60.0, "dns")).seconds == 10
    earlier = read("pulumi-slurm:checks WARNING clock, took 5 s")
    assert (earlier.verdicts, earlier.seconds, earlier.slowest) == ({"clock": "WARNING"}, 5, "")


@pytest.mark.parametrize(
    "odd",
    [
        "pulumi-slurm:failed gpus, found at 2026-02-30T12:00:00Z",
        "pulumi-slurm:failed gpus, well at Z, found at 12Z; pulumi-slurm:warning clock: late",
        "pulumi-slurm:quiet 7 since 2026-11-26T25:00:00Z",
        f"pulumi-slurm:quiet {'7' * 5000} since 2026-11-26T12:00:00Z",
    ],
)
def test_a_note_with_a_time_or_a_number_that_is_none_is_somebody_elses(odd: str) -> None:
    assert read(odd) == Note()
