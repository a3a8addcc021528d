"""Values for each option of a job: those that lead where no process of a user may get, and one that works."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tests.witness.options import Kind

FOLDER = "/home/witness"
PROGRAM, SETID, LIBRARY = f"{FOLDER}/program", f"{FOLDER}/setid", f"{FOLDER}/library.so"
LINK = f"{FOLDER}/link"
"""A link of the users' root that leads to the root of process 1."""
BUNDLE = f"{FOLDER}/bundle"
"""A container's bundle with the witness in it."""
LISTS = f"{FOLDER}/lists"
"""Files that options read: lists of nodes and programs, a crontab, variables."""
PREFIX = "witness-wrote-"
"""Prefix of every file that a line asks somebody to write."""

READ = (
    "/proc/1/root/run/slurm-node/slurm.key",
    "/proc/1/root/run/secrets/slurm/slurm.key",
    "/proc/self/maps",
    "/proc/1/cmdline",
    "/proc/1/environ",
    "/proc/self/root/run/slurm-node/slurm.key",
    "/run/slurm-node/slurm.key",
    "/run/secrets/slurm/slurm.key",
    f"{LINK}/run/slurm-node/slurm.key",
    "/var/spool/slurmd/conf-cache/slurm.conf",
)
GPU = "/dev/fakegpu0"
"""A GPU that no line asks for, where workers have some (tests/vm/v2_cluster.py)."""
WRITE = (
    "/proc/1/root/run/{name}",
    "/proc/1/root/usr/sbin/{name}",
    f"{LINK}/run/{{name}}",
    "/proc/self/root/run/slurm-node/{name}",
    "/var/spool/slurmd/{name}",
    "/var/spool/slurmd/conf-cache/{name}",
    "/mnt/jail/{name}",
    "/sys/fs/cgroup/{name}",
    "/usr/local/sbin/{name}",
    "/proc/1/root/tmp/{name}.%j.%t.%N",
)
LIMITS = (
    "/sys/fs/cgroup/pids/pids.max",
    "/sys/fs/cgroup/memory/memory.soft_limit_in_bytes",
    "/sys/fs/cgroup/system.slice/pids.max",
)
"""Limits of a worker's control groups: of the pod on version 1, and of all jobs on version 2. The witness's walk makes
them the user's, so that no mode of theirs refuses him (limits.py)."""
LIMIT = "31337"
"""The limit that lines write: low enough to stand out, and high enough for a pod to run on."""
RELATIVE = ("--chdir=/proc/1/root/run", "--chdir=/proc/self/root/run/slurm-node", f"--chdir={LINK}/run")
"""Folders from which relative names lead on."""

VALUES: Mapping[str, tuple[str, ...]] = {
    "x11": ("all", "batch"),
    "network": ("127.0.0.1:6818",),
    "export": ("ALL", "NONE", f"ALL,LD_PRELOAD={LIBRARY}", f"ALL,PATH={FOLDER}", "ALL,SLURM_CONF=/proc/1/root/etc/x"),
    "propagate": ("ALL", "NONE"),
    "mpi": ("none", "pmi2", "cray_shasta", "../../home/witness/library"),
    "container-type": ("../../home/witness/library",),
    "container-id": ("../../../run/slurm-node", "witness"),
    "context": ("system_u",),
    "mail-user": ("0", "64030"),
    "multi-prog": (*READ[:4], f"{LISTS}/programs-with-many-words"),
    "interactive": ("",),
}
"""Of options that name something else than a path, a program or a user."""
WORKS = {
    "input": f"{LISTS}/nodes",
    "container": BUNDLE,
    "bbf": f"{LISTS}/nodes",
    "nodefile": f"{LISTS}/nodes",
    "export-file": f"{LISTS}/variables",
    "multi-prog": f"{LISTS}/programs",
    "output": f"{FOLDER}/scratch/{{name}}",
    "error": f"{FOLDER}/scratch/{{name}}",
    "chdir": FOLDER,
    "prolog": PROGRAM,
    "epilog": PROGRAM,
    "task-prolog": PROGRAM,
    "task-epilog": PROGRAM,
    "mpi": "none",
    "export": "ALL",
    "propagate": "ALL",
    "get-user-env": "",
}
"""A value of each option with which the witness runs: without it, refusals prove nothing."""
POSITIONAL = {"multi-prog"}
"""Flags whose value stands in the place of the program."""
TERMINAL = {"pty"}
"""Options that want a terminal."""
STREAMS = {"input": "cat", "output": "echo {name}", "error": "sh -c 'echo {name} >&2'"}
"""Options of what a task reads and writes, and what the witness becomes then."""
ALSO = {"no-allocate": ("--nodelist=cpu-0",)}
"""Further options that an option needs."""
ENVIRONMENT = {"x11": ("DISPLAY=localhost:10.0",)}
"""Variables without which an option does nothing."""
BROKEN_FOLDERS = ("/proc/1/root", "/proc/1/cwd", "/proc/self/fd", "/mnt/jail", LINK)


def through_threads(tail: str) -> list[str]:
    """The same path from the root of each thread that slurmstepd may have; numbers can only be guessed."""
    return [f"/proc/self/task/{number}/root/{tail}" for number in range(2, 400, 7)]


@dataclass(frozen=True)
class Choice:
    """Options with their values, the one that is tried first.

    Args:
        option: without its dashes.
        value: nothing for a flag.
        more: other options.
        does: what the witness becomes when it has told, if anything.
        works: whether the witness must run with it.
        always: whether each draw has it.
    """

    option: str
    value: str
    more: tuple[str, ...] = ()
    does: str = ""
    works: bool = False
    always: bool = False

    @property
    def argument(self) -> str:
        """The option's own value, in its word or its variable."""
        return "" if self.option in POSITIONAL else self.value

    @property
    def word(self) -> str:
        """The option as a word of a command."""
        return f"--{self.option}={self.argument}" if self.argument else f"--{self.option}"


def choices(program: str, option: str, kind: Kind) -> list[Choice]:
    """All that is tried of an option, first of all what works, if anything does."""
    name = f"{PREFIX}{program}-{option}"
    does = STREAMS.get(option, "").format(name=name)
    found = [Choice(option, value.format(name=name), ALSO.get(option, ()), does) for value in _values(option, kind)]
    if option in STREAMS:
        relative = "slurm-node/slurm.key" if option == "input" else name
        found += [Choice(option, relative, (folder,), does) for folder in RELATIVE]
    if option == "input":
        found.append(Choice(option, GPU, does=does, always=True))
    if program == "sbatch" and option in {"output", "error"}:
        does = STREAMS[option].format(name=LIMIT)
        found += [Choice(option, limit, does=does, always=True) for limit in LIMITS]
    if option not in WORKS:
        return found
    works = WORKS[option].format(name=name)
    return [Choice(option, works, does=does, works=True), *(each for each in found if each.value != works)]


def _values(option: str, kind: Kind) -> Iterable[str]:
    if option in VALUES:
        return VALUES[option]
    if option == "chdir":
        return BROKEN_FOLDERS
    if option == "bcast":
        return (*WRITE, "/tmp/{name}")
    if option == "input":
        return (*READ, *through_threads("run/slurm-node/slurm.key"))
    by_kind = {Kind.READ: READ[:4], Kind.WRITE: WRITE, Kind.PROGRAM: (PROGRAM, SETID), Kind.USER: ("0", "64030")}
    return by_kind.get(kind, ("",))
