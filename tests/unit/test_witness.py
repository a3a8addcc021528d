"""The witness's judge and tables: what is a fault, and what is unclassified."""

from __future__ import annotations

import subprocess
from typing import Any, cast

import pytest

from tests.witness import commands, judge, options, outcomes, variables
from tests.witness.cluster import Cluster
from tests.witness.limits import Limits
from tests.witness.messages import rpcs
from tests.witness.runs import Run, Who
from tests.witness.values import LIMIT, LIMITS

FILTERS = 1
"""Of a container's runtime."""
DEVICES = {45: "/", 46: "/run", 47: "/run/secrets/slurm", 48: "/var/spool/slurmd", 49: "/proc", 65024: "/tmp"}
WORKER = judge.Node("pid:[1]", "ipc:[1]", "user:[1]", is_login=False, filters=FILTERS, devices=DEVICES)
LOGIN = judge.Node("pid:[2]", "ipc:[2]", "user:[1]", is_login=True, filters=FILTERS, devices=DEVICES)
ROOT, IMAGE = "65024:77", "65024:99"
ROOTS = judge.Roots(ROOT, IMAGE)
KEPT = f"{judge.KEPT_MASK:016x}"
INSIDE = {
    "label": "1-srun", "as": "program", "uid": "1000:1000", "pid": "pid:[9]", "ipc": "ipc:[9]", "first": "job_init",
    "user": "user:[1]", "cwd": "1:3:no",
    "CapInh": "0", "CapPrm": "0", "CapEff": "0", "CapBnd": KEPT, "CapAmb": "0", "Seccomp": "2", "Seccomp_filters": "3",
    "NSpid": "5", "source": "30:1:0:45:/opt/slurm:/opt/slurm",
    "root": f"{ROOT}:no", "thread": f"{ROOT}:no", "descriptor": "1:2:no", "mount": "/sys/fs/cgroup:tmpfs:ro",
    "whole": "yes",
}  # fmt: skip


def verdict(**changed: str) -> str:
    text = " ".join(f"{name}={value}" for name, value in {**INSIDE, **changed}.items())
    return "; ".join(judge.verdict(judge.read(text), [WORKER, LOGIN], ROOTS))


def test_a_task_in_its_job_and_a_session_of_a_login_have_no_fault() -> None:
    assert not verdict()
    assert not verdict(CapPrm=KEPT, CapEff=KEPT, uid="0:0")
    assert not verdict(pid=LOGIN.pid, ipc=LOGIN.ipc, first="tini")
    assert not verdict(first="su"), "start-up files, before the job exists"
    assert not verdict(device="c:1:3:/dev/null")
    assert not verdict(device="c:136:0:/dev/pts/0")
    assert not verdict(source="30:1:0:48:/job00007:/var/spool/slurmd/job00007"), "its own script"


@pytest.mark.parametrize("name", judge.SETS)
@pytest.mark.parametrize("bit", sorted({*range(41)} - {*judge.KEPT}))
def test_each_capability_beyond_those_that_a_job_keeps_is_a_fault_in_each_set(name: str, bit: int) -> None:
    assert "has more than a job keeps" in verdict(**{name: f"{1 << bit:x}"})


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"Seccomp": "0"}, "has no filter"),
        ({"Seccomp_filters": "1"}, "no filter of system calls but its pod's"),
        ({"Seccomp_filters": ""}, "no filter of system calls but its pod's"),
        ({"pid": WORKER.pid, "first": "tini"}, "processes of the worker pod"),
        ({"ipc": WORKER.ipc}, "IPC of the worker pod"),
        ({"first": "tini"}, "process 1 is tini"),
        ({"NSpid": "40?1"}, "a /proc of other processes"),
        ({"root": "1:2:no"}, "not the jail"),
        ({"root": f"{ROOT}:yes"}, "not the jail"),
        ({"thread": "1:2:yes"}, "a thread of it"),
        ({"descriptor": "1:2:yes"}, "a descriptor of it"),
        ({"first_root": "1:2:yes"}, "a first_root of it"),
        ({"cwd": "1:2:yes"}, "a cwd of it"),
        ({"descriptor": "47:12:no"}, "a descriptor of it is on the file system of the pod's /run/secrets/slurm"),
        ({"thread": "45:2:no"}, "a thread of it is on the file system of the pod's /"),
        ({"source": "30:1:0:45:/:/home/root"}, "sees / of the pod's / at /home/root"),
        ({"source": "30:1:0:45:/opt/slurm.old:/x"}, "sees /opt/slurm.old of the pod's / at /x"),
        ({"source": "30:1:0:46:/slurm-node:/run/x"}, "sees /slurm-node of the pod's /run at /run/x"),
        ({"source": "30:1:0:48:/:/var/spool/slurmd"}, "sees / of the pod's /var/spool/slurmd"),
        ({"descriptor": "49:1:no"}, "a descriptor of it is on the file system of the pod's /proc"),
        ({"source": "30:1:0:49:/:/proc"}, "sees / of the pod's /proc at /proc"),
        ({"source": "30:1:0:48:/cred_state:/x"}, "sees /cred_state of the pod's /var/spool/slurmd"),
        ({"device": "c:10:229:/dev/fakegpu0"}, "the device /dev/fakegpu0 (c 10:229) open"),
        ({"device": "b:7:3:/dev/loop3"}, "the device /dev/loop3 (b 7:3) open"),
        ({"device": "b:1:3:/dev/ram3"}, "the device /dev/ram3 (b 1:3) open"),
        ({"mount": "/run/secrets/slurm:tmpfs:ro"}, "the pod's mount /run/secrets/slurm"),
        ({"mount": "/sys/fs/cgroup:cgroup2:rw"}, "can write the cgroups"),
        ({"mount": "/sys/fs/cgroup/memory:tmpfs:rw"}, "can write the cgroups"),
    ],
)
def test_each_thing_that_a_job_may_not_have_is_a_fault(changed: dict[str, str], fault: str) -> None:
    assert fault in verdict(**changed)


STACKED = ("20:1:0:45:/:/a", "21:20:0:45:/:/a/below", "22:20:0:99:/:/a", "23:22:0:46:/slurm/door:/a/door")
"""A mount of the pod's with another one in it, both covered, and one in the cover."""


def test_a_mount_of_the_pods_that_another_one_covers_is_out_of_reach() -> None:
    assert [mount.path for mount in judge.visible(STACKED)] == ["/a", "/a/door"]
    assert not verdict(source=" source=".join(STACKED))
    assert "sees / of the pod's / at /a/below" in verdict(source=" source=".join(STACKED[:2]))
    assert "sees / of the pod's / at /a" in verdict(source=" source=".join((*STACKED[:2], "22:1:0:99:/:/a")))


def test_a_line_without_its_rights_is_a_fault() -> None:
    assert "does not tell its CapBnd" in verdict(CapBnd="")


def test_a_line_that_had_no_room_for_all_is_a_fault() -> None:
    """The missing rest may have the one mount that no job may have."""
    assert "had more to tell than its line holds" in verdict(whole="")


def test_an_option_without_a_class_and_a_class_without_an_option_are_told() -> None:
    table = {"input": (options.Kind.READ, "why"), "gone": (options.Kind.HARMLESS, "why")}
    said = options.differences(table, options.listed("possibilities: '--input' '--run-as'"), "srun")
    assert [line.split(",")[0].split(":")[0] for line in said] == [
        "srun has --run-as".replace("--", ""),
        "srun has no gone any more",
    ]


def test_a_program_without_a_class_and_a_class_without_a_program_are_told() -> None:
    known = {*options.OTHERS, *(program for programs in options.OPTIONS for program in programs)}
    assert not options.program_differences(known)
    new, gone = options.program_differences({*known, "srunas"} - {"swait"})
    assert new.startswith("Slurm has srunas, which tests/witness/options.py does not classify")
    assert gone.startswith("Slurm has no swait any more")


# What a witness told of a small cluster whose slurmstepd ran task epilogs by itself, without its filter.
EPILOG_OUTSIDE = f"""
as=root label=1-475-srun-task-epilog-user-login uid=0:0 exe=/home/witness/setid pid={WORKER.pid} ipc={WORKER.ipc}
user={WORKER.user} root={ROOT}:no cwd=65024:11182177:no NSpid=231 CapInh=0000000000000000 CapPrm=00000000a02401fb
CapEff=00000000a02401fb CapBnd=00000000a02401fb CapAmb=0000000000000000 Seccomp=0 first=tini descriptor=6:3:no
descriptor=15:1733725:no thread={ROOT}:no mount=/:ext4:rw mount=/proc:proc:rw mount=/sys/fs/cgroup:tmpfs:rw
mount=/run/slurm:tmpfs:ro whole=yes
"""


def test_the_judge_fails_what_a_slurmstepd_without_its_confinement_let_happen() -> None:
    faults = judge.verdict(judge.read(" ".join(EPILOG_OUTSIDE.split())), [WORKER, LOGIN], ROOTS)
    assert [fault.partition("): ")[2] for fault in faults] == [
        "is among the processes of the worker pod",
        "has the IPC of the worker pod",
        "can write the cgroups at /sys/fs/cgroup",
        "has no filter of system calls",
        "CapPrm a02401fb has more than a job keeps",
        "CapEff a02401fb has more than a job keeps",
        "CapBnd a02401fb has more than a job keeps",
        "process 1 is tini, not the job's",
    ]


@pytest.mark.parametrize(
    ("output", "what"),
    [
        (b"/usr/bin/tini\0-s\0--\0/usr/bin/python3\0-m\0slurm_node\0worker\0", "the worker's process 1"),
        (b"55d8c0a4f000-55d8c0a51000 r--p 00000000 fe:00 11 /opt/slurm/sbin/slurmstepd\n", "the map of slurmstepd"),
        (b'HOME=/root\0SLURM_NODE={"controller"', "the pod's environment"),
        (b"x\0\xffkey\n", "slurm.key"),
    ],
)
def test_what_a_slurmstepd_that_opens_by_itself_let_a_line_print_is_told(output: bytes, what: str) -> None:
    assert judge.shown(output, b"\0\xffkey") == [what]
    assert not judge.shown(b"nothing of the pod's", b"\0\xffkey")


CONTAINER = {"user": "user:[5]", "root": f"{IMAGE}:no", "first": "sh", "CapEff": "1ffffffffff", "CapBnd": "1ffffffffff"}


def test_a_rootless_container_may_have_its_image_as_root_and_all_capabilities_there_and_no_more() -> None:
    assert not verdict(**CONTAINER)
    assert "not the jail" in verdict(**{**CONTAINER, "root": "1:2:no"})
    assert "not the jail" in verdict(**{**CONTAINER, "root": f"{IMAGE}:yes"})
    assert "processes of the worker pod" in verdict(**{**CONTAINER, "pid": WORKER.pid})
    assert "no filter" in verdict(**{**CONTAINER, "Seccomp": "0"})
    assert "the pod's /run/secrets/slurm" in verdict(**{**CONTAINER, "descriptor": "47:12:no"})
    assert "not the jail" in verdict(root=f"{IMAGE}:no"), "an image is no root outside of a container"


class Pods:
    """Stands for two workers: one whose limits a line has changed, and one whose root can write none."""

    workers = ("cpu-0", "cpu-1")

    def __init__(self) -> None:
        self.held = {"cpu-0": f"{LIMITS[0]} max\n", "cpu-1": ""}

    def at_login(self, _: str) -> subprocess.CompletedProcess[str]:
        """Return the user's id, as `id` prints it."""
        return subprocess.CompletedProcess([], 0, "1000\n", "")

    def in_pod(self, pod: str, _: str) -> str:
        """Return the content of a pod's limits."""
        return self.held[pod]


def test_a_limit_that_a_line_changed_and_a_pod_without_any_are_told() -> None:
    pods = Pods()
    limits = Limits(cast(Cluster, pods))
    limits.give_away()
    assert limits.changes() == ["cpu-1 has no limit that its own root can write"]
    pods.held["cpu-0"] = f"{LIMITS[0]} {LIMIT}\n"
    changed, _ = limits.changes()
    assert changed.startswith("cpu-0 had the limits")


def test_a_letter_and_a_variable_without_a_class_are_told() -> None:
    letters = variables.shorts("i: srun: option requires an argument -- 'i'\ny: srun: invalid option -- 'y'\nY: fatal")
    assert letters == {"i", "Y"}
    read = variables.found("SLURM_STDINMODE x SRUN_RUN_AS SLURM_UMASK SBATCH_")
    said = variables.differences("srun", {"input"}, read, letters)
    assert [line.split(",")[0] for line in said] == ["srun reads SRUN_RUN_AS", "srun has -Y"]


def outcome(said: str, *, told: bool = False, **facts: Any) -> list[str]:
    run = Run("1", "srun", **{"who": Who.USER, "from_login": False, "option": "srun --input", **facts})
    return outcomes.failures([run], {"1"} if told else set(), {"1": said})


def test_a_line_that_neither_ran_nor_was_refused_in_known_words_is_a_fault() -> None:
    assert not outcome("", told=True)
    assert not outcome("srun: error: Could not open stdin file: Permission denied")
    assert "neither ran nor was refused" in outcome("srun: unrecognized option '--inputt'\nstatus=255")[0]
    assert "neither ran nor was refused" in outcome("status=124")[0]
    assert "neither ran nor was refused" in outcome("")[0]
    assert "must go through" in outcome("Permission denied", works=True)[0]
    assert not outcome("status=0", shows="status=0$")
    assert not outcome("", option="srun --input --mpi"), "pairs are for the judge alone"


def test_root_of_the_jail_whom_slurm_answers_is_a_fault() -> None:
    nobody = "srun: root of the jail is nobody to Slurm"
    assert not outcome(nobody, who=Who.ROOT)
    assert "Slurm did it for root of the jail" in outcome("", told=True, who=Who.ROOT)[0]
    assert "Slurm did it for root of the jail" in outcome("status=0", shows="status=0$", who=Who.ROOT)[0]
    assert "neither ran nor" in outcome("Permission denied", who=Who.ROOT)[0]


def test_what_slurm_does_for_nobody_of_the_jail_is_a_fault_of_an_administrators_line_too() -> None:
    archive = {"option": "sacctmgr-archive", "shows": commands.WENT_THROUGH, "is_nobodys": True}
    for who in (Who.USER, Who.ADMINISTRATOR):
        assert "did it for somebody of the jail" in outcome("status=0", who=who, **archive)[0]
        assert not outcome("error: refused: an archive has slurmdbd run a program or SQL, so ask", who=who, **archive)


def test_a_message_that_slurmd_takes_and_the_table_lacks_is_told() -> None:
    names = ["REQUEST_OF_TOMORROW", "REQUEST_OF_SLURMCTLD", "RESPONSE_UNREAD"]
    assert len(rpcs.unclassified(names, ["0", rpcs.UNKNOWN, "5003"])) == 1
    assert "slurmd takes REQUEST_OF_TOMORROW" in rpcs.unclassified(names, ["0", rpcs.UNKNOWN, "5003"])[0]
    assert not rpcs.gone(rpcs.TAKEN)
    assert len(rpcs.gone([])) == len(rpcs.TAKEN)
    assert rpcs.answers("1 no token\n2 2010\n") == {"1": "no token", "2": "2010"}
