"""The shell lines that try options, drawn from a seed: what they name leads where no process of a user's may get."""

from __future__ import annotations

import itertools
import random
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.witness.options import OPTIONS, Kind

FOLDER = "/srv/witness"
PROGRAM, SETID, LIBRARY = f"{FOLDER}/program", f"{FOLDER}/setid", f"{FOLDER}/library.so"
LINK = f"{FOLDER}/link"
"""A link of the users' root that leads to the root of process 1."""
AS_ROOT = f"{SETID} as"
"""Stands for sudo: a set-id root program of the users' root."""
PREFIX = "witness-wrote-"
"""How the name of every file begins that a line asks somebody to write."""

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
RELATIVE = ("--chdir=/proc/1/root/run", "--chdir=/proc/self/root/run/slurm-node", f"--chdir={LINK}/run")
"""Folders from which relative names lead on."""
OTHER_SETTINGS = f"env SLURM_CONF={FOLDER}/conf/slurm.conf "
"""Before a command: Slurm's configuration without its plugins, so that nothing of ours is asked in the client."""


VALUES: Mapping[str, tuple[str, ...]] = {
    "x11": ("all", "batch"),
    "network": ("127.0.0.1:6818",),
    "export": ("NONE", f"ALL,LD_PRELOAD={LIBRARY}", f"ALL,PATH={FOLDER}", "ALL,SLURM_CONF=/proc/1/root/etc/x"),
    "propagate": ("ALL", "NONE"),
    "mpi": ("none", "pmi2", "../../srv/witness/library"),
    "container-type": ("../../srv/witness/library",),
    "container-id": ("../../../run/slurm-node", "witness"),
    "context": ("system_u",),
}
"""Of options that name something else than a path, a program or a user."""


def through_threads(tail: str) -> list[str]:
    """The same path from the root of each thread that slurmstepd may have; numbers can only be guessed."""
    return [f"/proc/self/task/{number}/root/{tail}" for number in range(2, 400, 7)]


@dataclass(frozen=True)
class Run:
    """A line to try.

    Args:
        label: names it in what its witnesses write.
        line: a command without its redirections.
        is_root: whether root starts it, rather than the user.
        from_login: whether it begins on a login node, rather than in a job.
    """

    label: str
    line: str
    is_root: bool
    from_login: bool

    def shell(self, seconds: int) -> str:
        """The line as whoever starts it runs it, with a limit; root's steps are in jobs of his own."""
        bounded = f"timeout -k 1 {seconds} {self.line}"
        return f"{AS_ROOT} env -u SLURM_JOB_ID {bounded}" if self.is_root else bounded


Choice = tuple[tuple[str, ...], str]
"""Options with their values, and the program that the step runs with them."""


def choices(program: str, option: str, kind: Kind) -> list[Choice]:
    """All that is tried of an option."""
    flag = f"--{option}"
    name = f"{PREFIX}{program}-{option}"

    def each(values: Iterable[str], does: str) -> list[Choice]:
        return [((f"{flag}={value}",), does) for value in values]

    if option in {"container", "bbf", "nodefile", "export-file"}:
        return each(READ[:4], "true")
    if kind is Kind.READ:
        relative = [((f"{flag}=slurm-node/slurm.key", folder), "cat") for folder in RELATIVE]
        return [*each([*READ, *through_threads("run/slurm-node/slurm.key")], "cat"), *relative]
    if option == "chdir":
        return each(("/proc/1/root", "/proc/1/cwd", "/proc/self/fd", "/mnt/jail", LINK), PROGRAM)
    if option == "bcast":
        return each((path.format(name=name) for path in (*WRITE, "/tmp/{name}")), "/bin/true")
    if kind is Kind.WRITE:
        relative = [((f"{flag}={name}", folder), f"echo {name}") for folder in RELATIVE]
        return [*each((path.format(name=name) for path in WRITE), f"echo {name}"), *relative]
    if kind is Kind.PROGRAM:
        return each((PROGRAM, SETID), "" if option == "wrap" else "true")
    if kind is Kind.USER:
        return each(("0", "64030"), PROGRAM)
    if option in VALUES:
        return each(VALUES[option], PROGRAM)
    return [((flag,), PROGRAM)]


def _line(program: str, words: Sequence[str], runs: str, memory: int, label: str) -> str:
    # An srun that is killed leaves the job that it has just been given, which only its time limit ends.
    srun = f"srun -n1 --overlap --time=1 --mem={memory}"
    if any(word.startswith("--bcast=") for word in words):
        return f"{OTHER_SETTINGS}{srun} {shlex.join(words)} {runs}"
    if program == "srun":
        return f"{srun} {shlex.join(words)} {runs}"
    if program == "salloc":
        return f"salloc -Q -n1 --mem=20 --time=1 {shlex.join(words)} srun -n1 {runs}"
    given = [] if any(word.startswith("--wrap") for word in words) else [f"--wrap={runs}"]
    if not any(word.startswith(("--output", "--error")) for word in words):
        given.append(f"--output={FOLDER}/out/{label}-batch")
    return f"sbatch --quiet -n1 --mem=20 --time=1 {shlex.join([*words, *given])}"


HAS = {
    "salloc": {"chdir", "x11", "stepmgr"},
    "sbatch": {
        "input", "output", "error", "chdir", "wrap", "uid", "gid", "export", "export-file", "get-user-env", "stepmgr",
        "propagate", "external",
    },
}  # fmt: skip
"""The options that are tried of the programs that share srun's table; srun has all the others."""
NOT_OF_SRUN = {"wrap", "uid", "gid", "export-file", "get-user-env", "external"}
NEEDS_A_TERMINAL = {"pty", "interactive"}


def all_choices() -> Iterator[tuple[str, str, Choice]]:
    """Program, option and choice of everything that is not harmless."""
    (table,) = (table for programs, table in OPTIONS.items() if "srun" in programs)
    for option, (kind, _) in table.items():
        if kind is Kind.HARMLESS or option in NEEDS_A_TERMINAL:
            continue
        for program in ("srun", "sbatch", "salloc"):
            tried = option not in NOT_OF_SRUN if program == "srun" else option in HAS[program]
            if tried:
                yield from ((program, option, choice) for choice in choices(program, option, kind))


VALUES_EACH = 4


def draw(seed: int, whole: bool, pairs: int) -> list[Run]:
    """What is tried: of each option of each program as user and as root some values, and pairs of options.

    Args:
        seed: decides order, values and pairs.
        whole: tries all values in place of a few of each option.
        pairs: how many pairs of srun's options.
    """
    dice = random.Random(seed)
    by_option: dict[tuple[str, str], list[Choice]] = {}
    for program, option, choice in all_choices():
        by_option.setdefault((program, option), []).append(choice)
    runs: list[Run] = []

    def add(name: str, program: str, words: list[str], does: str, is_root: bool, from_login: bool) -> None:
        label = f"{len(runs)}-{name}-{'root' if is_root else 'user'}-{'login' if from_login else 'job'}"
        runs.append(
            Run(label, _line(program, words, does, 20 if is_root or from_login else 0, label), is_root, from_login)
        )

    for (program, option), found in by_option.items():
        for is_root in (False, True):
            few = found if whole else dice.sample(found, min(len(found), VALUES_EACH))
            for words, does in few:
                add(
                    f"{program}-{option}", program, [*words], does, is_root, program != "sbatch" and dice.random() < 0.2
                )
    of_srun = [
        (option, choice) for (program, option), found in by_option.items() if program == "srun" for choice in found
    ]
    combinations = list(itertools.combinations(of_srun, 2))
    for (first, one), (second, other) in dice.sample(combinations, min(pairs, len(combinations))):
        if first != second:
            add(f"{first}-{second}", "srun", [*one[0], *other[0]], one[1], dice.random() < 0.5, False)
    dice.shuffle(runs)
    return runs


BASELINES = {
    "baseline-job-user": (PROGRAM, False),
    "baseline-job-root": (SETID, False),
    "baseline-login-user": (PROGRAM, True),
    "baseline-login-root": (SETID, True),
}
"""Label → witness, and whether it runs on a login node: without their lines no other proves anything."""


def script(runs: Sequence[Run], at_once: int, seconds: int, step: str) -> str:
    """A shell script that runs lines side by side; what each prints lies in a file of its label."""
    rows = "".join(
        f"WITNESS={run.label} LD_PRELOAD={LIBRARY} {run.shell(seconds)} "
        f"> {FOLDER}/out/{run.label} 2>&1 < /dev/null; true\n"
        for run in runs
    )
    commands = f"cat > {FOLDER}/{step}.lines <<'LINES'\n{rows}LINES\n"
    return f"{commands}tr '\\n' '\\0' < {FOLDER}/{step}.lines | xargs -0 -P {at_once} -n 1 sh -c; true\n"
