"""The witness's judge, tables and draws: what is a fault, what is unclassified, and that a seed says all."""

from __future__ import annotations

import pytest

from tests.witness import judge, options, rpcs, runs

WORKER = judge.Node("pid:[1]", "ipc:[1]", is_login=False)
LOGIN = judge.Node("pid:[2]", "ipc:[2]", is_login=True)
ROOT = "65024:77"
KEPT = f"{judge.KEPT_MASK:016x}"
INSIDE = {
    "label": "1-srun", "as": "program", "uid": "1000:1000", "pid": "pid:[9]", "ipc": "ipc:[9]", "first": "job_init",
    "CapInh": "0", "CapPrm": "0", "CapEff": "0", "CapBnd": KEPT, "CapAmb": "0", "Seccomp": "2", "NSpid": "5",
    "root": f"{ROOT}:no", "thread": f"{ROOT}:no", "descriptor": "1:2:no", "mount": "/sys/fs/cgroup:tmpfs:ro",
}  # fmt: skip


def verdict(**changed: str) -> str:
    text = " ".join(f"{name}={value}" for name, value in {**INSIDE, **changed}.items())
    return "; ".join(judge.verdict(judge.read(text), [WORKER, LOGIN], ROOT))


def test_a_task_in_its_job_and_a_session_of_a_login_have_no_fault() -> None:
    assert not verdict()
    assert not verdict(CapPrm=KEPT, CapEff=KEPT, uid="0:0")
    assert not verdict(pid=LOGIN.pid, ipc=LOGIN.ipc, first="tini")


@pytest.mark.parametrize("name", judge.SETS)
@pytest.mark.parametrize("bit", sorted({*range(41)} - {*judge.KEPT}))
def test_each_capability_beyond_those_that_a_job_keeps_is_a_fault_in_each_set(name: str, bit: int) -> None:
    assert "has more than a job keeps" in verdict(**{name: f"{1 << bit:x}"})


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"Seccomp": "0"}, "no filter"),
        ({"pid": WORKER.pid, "first": "tini"}, "processes of the worker pod"),
        ({"ipc": WORKER.ipc}, "IPC of the worker pod"),
        ({"first": "tini"}, "process 1 is tini"),
        ({"NSpid": "40?1"}, "a /proc of other processes"),
        ({"root": "1:2:no"}, "not the jail"),
        ({"root": f"{ROOT}:yes"}, "not the jail"),
        ({"thread": "1:2:yes"}, "a thread of it"),
        ({"descriptor": "1:2:yes"}, "a descriptor of it"),
        ({"first_root": "1:2:yes"}, "a first_root of it"),
        ({"mount": "/run/secrets/slurm:tmpfs:ro"}, "the pod's mount /run/secrets/slurm"),
        ({"mount": "/sys/fs/cgroup:cgroup2:rw"}, "can write the cgroups"),
        ({"mount": "/sys/fs/cgroup/memory:tmpfs:rw"}, "can write the cgroups"),
    ],
)
def test_each_thing_that_a_job_may_not_have_is_a_fault(changed: dict[str, str], fault: str) -> None:
    assert fault in verdict(**changed)


def test_a_line_without_its_rights_is_a_fault() -> None:
    assert "does not tell its CapBnd" in verdict(CapBnd="")


def test_an_option_without_a_class_and_a_class_without_an_option_are_told() -> None:
    table = {"input": (options.Kind.READ, "why"), "gone": (options.Kind.HARMLESS, "why")}
    said = options.differences(table, options.listed("possibilities: '--input' '--run-as'"), "srun")
    assert [line.split(",")[0].split(":")[0] for line in said] == [
        "srun has --run-as".replace("--", ""),
        "srun has no gone any more",
    ]


def test_a_seed_says_what_is_tried() -> None:
    assert runs.draw(1, False, 10) == runs.draw(1, False, 10)
    assert runs.draw(1, False, 10) != runs.draw(2, False, 10)
    assert len({run.label for run in runs.draw(1, True, 10)}) == len(runs.draw(1, True, 10))


def test_every_option_that_is_not_harmless_is_tried_by_user_and_by_root() -> None:
    table = next(table for programs, table in options.OPTIONS.items() if "srun" in programs)
    wanted = {name for name, (kind, _) in table.items() if kind is not options.Kind.HARMLESS} - runs.NEEDS_A_TERMINAL
    for is_root in (False, True):
        lines = [run.line for run in runs.draw(3, False, 0) if run.is_root is is_root]
        assert {name for name in wanted if not any(f"--{name}" in line for line in lines)} == set()


def test_a_message_that_slurmd_takes_and_the_table_lacks_is_told() -> None:
    names = ["REQUEST_OF_TOMORROW", "REQUEST_OF_SLURMCTLD", "RESPONSE_UNREAD"]
    assert len(rpcs.unclassified(names, ["0", rpcs.UNKNOWN, "5003"])) == 1
    assert "slurmd takes REQUEST_OF_TOMORROW" in rpcs.unclassified(names, ["0", rpcs.UNKNOWN, "5003"])[0]
    assert not rpcs.gone(rpcs.TAKEN)
    assert len(rpcs.gone([])) == len(rpcs.TAKEN)
    assert rpcs.answers("1 no token\n2 2010\n") == {"1": "no token", "2": "2010"}
