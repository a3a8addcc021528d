"""The shell lines that try options, drawn from a seed: what they name leads where no process of a user's may get."""

from __future__ import annotations

import enum
import itertools
import random
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tests.witness import commands, variables
from tests.witness.options import OPTIONS, Kind
from tests.witness.values import ENVIRONMENT, FOLDER, LIBRARY, POSITIONAL, PROGRAM, SETID, TERMINAL, Choice, choices

OTHER_SETTINGS = f"env SLURM_CONF={FOLDER}/conf/slurm.conf"
"""Before a command: Slurm's configuration without its plugins, so that nothing of ours is asked in the client."""
BATCH = f"{FOLDER}/batch"
"""sbatch that waits and prints how its job ended."""


SUDO = "/usr/bin/sudo -n -E"
"""Becomes root without a password, and keeps the line's variables."""


class Who(enum.Enum):
    """The user who starts a line; a value is the program in FOLDER that becomes another user."""

    USER = ""
    STEP_ROOT = "root-in-the-step"
    """The user starts it, and root by sudo is what runs in its step."""
    ROOT = "root"
    """Root by sudo starts Slurm's command."""
    OTHER = "other"
    """Another user, by sudo of this one."""
    ADMINISTRATOR = "administrator"


@dataclass(frozen=True)
class Run:
    """A line to try.

    Args:
        label: names it in what its witnesses write.
        line: a command without its redirections.
        who: who starts it.
        from_login: whether it begins on a login node, rather than in a job.
        option: what it tries: ``PROGRAM --OPTION``.
        works: whether a witness must have run, since it is the option's plain use.
        shows: what its output has when it went through; without that, a witness shows it.
        leaves_job: whether somebody else's line forgets the job in which it begins.
        is_nobodys: whether it may go through for nobody of the jail.
    """

    label: str
    line: str
    who: Who
    from_login: bool
    option: str
    works: bool = False
    shows: str = ""
    leaves_job: bool = True
    is_nobodys: bool = False

    def shell(self, seconds: int) -> str:
        """The line as whoever starts it runs it, with a limit."""
        bounded = f"timeout -k 1 {seconds} {self.line}"
        if self.who not in {Who.ROOT, Who.OTHER, Who.ADMINISTRATOR}:
            return bounded
        forget = "env -u SLURM_JOB_ID -u SLURM_JOBID " if self.leaves_job else ""
        return f"{FOLDER}/{self.who.value} {forget}{bounded}"


@dataclass(frozen=True)
class Plan:
    """The choices of a draw.

    Args:
        options: program → its installed options that share srun's table.
        read: program → the variables that it reads.
        people: who there is besides the user.
        values_each: how many values of each option are tried besides the one that works; all, if it is None.
        pairs: how many pairs of srun's options.
    """

    options: Mapping[str, frozenset[str]]
    read: Mapping[str, frozenset[str]]
    people: Sequence[Who] = (Who.STEP_ROOT, Who.ROOT, Who.OTHER)
    values_each: int | None = 1
    pairs: int = 12

    @property
    def is_whole(self) -> bool:
        """Return whether everything is tried."""
        return self.values_each is None


FROM_LOGIN = 0.2
"""Share of the lines that begin on a login node. The whole walk has one of each option there besides."""
JOB_TABLE = next(table for programs, table in OPTIONS.items() if "srun" in programs)


@dataclass
class Draw:
    """Lines of a plan, in the making.

    Args:
        seed: begins each label.
        plan: what there is to draw from.
    """

    seed: int
    plan: Plan
    runs: list[Run] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)

    def add(self, program: str, name: str, some: Sequence[Choice], who: Who, from_login: bool) -> None:
        """A line that gives a program some options."""
        label = self._label(f"{program}-{name}", who, from_login)
        witness = f"{FOLDER}/root {PROGRAM}" if who is Who.STEP_ROOT else PROGRAM
        does = " ".join([witness, f"label={label}", *(["then", some[0].does] if some[0].does else [])])
        does = next((shlex.quote(choice.value) for choice in some if choice.option in POSITIONAL), does)
        given, before = self._given(program, some)
        names = {choice.option for choice in some}
        step = who in {Who.USER, Who.STEP_ROOT} and not from_login
        line = _line(program, names, shlex.join(given), shlex.join(before), does, label, in_own_job=step)
        works = len(some) == 1 and some[0].works
        option = " ".join([program, *(f"--{choice.option}" for choice in some)])
        self.runs.append(Run(label, line, who, from_login, option, works, leaves_job=self.dice.random() < 0.7))

    def draw_login(self) -> bool:
        """Throw the die for whether a line begins on a login node."""
        return self.dice.random() < FROM_LOGIN

    def add_command(self, command: commands.Command, who: Who, from_login: bool) -> None:
        """A line of a program that starts no job."""
        label = self._label(command.name, who, from_login)
        witness = f"{PROGRAM} label={label}"
        line = command.line.format(label=label, witness=witness)
        self.runs.append(
            Run(
                label, line, who, from_login, command.name, command.works, command.shows,
                leaves_job=False, is_nobodys=command.is_nobodys,
            )
        )  # fmt: skip

    def _label(self, name: str, who: Who, from_login: bool) -> str:
        return f"{self.seed}-{len(self.runs)}-{name}-{who.name.lower()}-{'login' if from_login else 'job'}"

    def _given(self, program: str, some: Sequence[Choice]) -> tuple[list[str], list[str]]:
        """Words of a command, and variables before it: the first option in one of the forms that it has."""
        first, *others = some
        more = [*first.more, *(word for choice in others for word in (choice.word, *choice.more))]
        letters = [letter for letter, option in variables.SHORT.items() if option == first.option]
        names = variables.variables_of(program, first.option, self.plan.read[program], self.plan.options[program])
        before = [word for choice in some for word in ENVIRONMENT.get(choice.option, ())]
        form = self.dice.randrange(4)
        if form == 0 and letters:
            return [f"-{letters[0]}{first.argument}", *more], before
        if form == 1 and names:
            return more, [*before, f"{self.dice.choice(names)}={first.argument or 1}"]
        return [first.word, *more], before


def _line(program: str, names: set[str], words: str, before: str, does: str, label: str, *, in_own_job: bool) -> str:
    start = f"env {before} " if before else ""
    if "bcast" in names:
        start, does = f"{OTHER_SETTINGS} {before} ", "/bin/true"
    # An srun that is killed leaves the job that it has just been given, which only its time limit ends.
    if program == "srun":
        memory = "--overlap --mem=0" if in_own_job else "--mem=40"
        patience = "timeout 15 " if "debugger-test" in names else ""
        line = f"{start}{patience}srun -n1 --time=1 {memory} {words} {does}"
        return f"script -qec {shlex.quote(line)} /dev/null" if names & TERMINAL else line
    if program == "salloc":
        return f"{start}salloc -n1 --mem=40 --time=1 {words} srun -n1 {does}"
    wrap = "" if "wrap" in names else shlex.quote(f"--wrap={does}")
    output = "" if "output" in names else f"--output={FOLDER}/out/{label}-batch"
    return f"{start}{BATCH} {label} -n1 --mem=40 --time=1 {words} {wrap} {output}"


def draw(seed: int, plan: Plan) -> list[Run]:
    """Return what is tried: of each option of each program what works, some other values, and pairs of srun's options.

    Args:
        seed: decides order, values, forms, places, people and pairs.
        plan: what there is to draw from.
    """
    made = Draw(seed, plan)
    of_srun: list[Choice] = []
    for program in ("srun", "sbatch", "salloc"):
        for option in sorted(plan.options[program]):
            kind = JOB_TABLE[option][0]
            if kind is not Kind.HARMLESS:
                found = choices(program, option, kind)
                of_srun += found if program == "srun" else []
                _add_option(made, program, found)
    _add_commands(made)
    combinations = list(itertools.combinations(of_srun, 2))
    for one, other in made.dice.sample(combinations, min(plan.pairs, len(combinations))):
        if one.option != other.option:
            made.add(
                "srun", f"{one.option}-{other.option}", (one, other), made.dice.choice([Who.USER, *people(plan)]), False
            )
    made.dice.shuffle(made.runs)
    return made.runs


def people(plan: Plan) -> list[Who]:
    """Return who else may start a line besides the user. Slurm's own commands refuse root at once."""
    return [who for who in plan.people if who is not Who.ROOT]


def _add_option(made: Draw, program: str, found: Sequence[Choice]) -> None:
    plan, dice = made.plan, made.dice
    option = found[0].option
    if found[0].works:
        made.add(program, option, found[:1], Who.USER, False)
    others = [choice for choice in found if not choice.works] or [replace(each, works=False) for each in found]
    drawn = [choice for choice in others if not choice.always]
    few = others if plan.values_each is None else dice.sample(drawn, min(len(drawn), plan.values_each))
    for choice in others:
        if choice.always:
            made.add(program, option, (choice,), Who.USER, False)
    for choice in few:
        whole = [Who.USER, *people(plan)]
        for who in whole if plan.is_whole else [dice.choice(whole)]:
            in_job = plan.is_whole and who is Who.USER
            made.add(program, option, (choice,), who, not in_job and made.draw_login())
    if plan.is_whole:
        made.add(program, option, (dice.choice(others),), Who.USER, True)
    if Who.ROOT in plan.people and (plan.is_whole or dice.random() < 0.2):
        for place in [False, True] if plan.is_whole else [made.draw_login()]:
            made.add(program, option, (dice.choice(found),), Who.ROOT, place)


def _add_commands(made: Draw) -> None:
    everybody = [Who.USER, *(who for who in made.plan.people if who is not Who.STEP_ROOT)]
    for command in commands.COMMANDS:
        if command.works:
            made.add_command(command, Who.USER, False)
    for found in _by_name(command for command in commands.COMMANDS if not command.works):
        for command in found if made.plan.is_whole else made.dice.sample(found, 1):
            able = [who for who in everybody if who is not Who.ADMINISTRATOR or command.harms_nobody]
            for who in able if made.plan.is_whole else [made.dice.choice(able)]:
                in_job = made.plan.is_whole or command.needs_job or not made.draw_login()
                made.add_command(command, who, not in_job)
    if made.plan.is_whole:
        _add_from_login(made)


def _add_from_login(made: Draw) -> None:
    """Adds a line of the user and one of root for each name that needs no job."""
    both = [Who.USER, *(who for who in made.plan.people if who is Who.ROOT)]
    for found in _by_name(command for command in commands.COMMANDS if not command.needs_job):
        for who in both:
            made.add_command(replace(made.dice.choice(found), works=False), who, True)


def _by_name(some: Iterable[commands.Command]) -> list[list[commands.Command]]:
    by_name: dict[str, list[commands.Command]] = {}
    for command in some:
        by_name.setdefault(command.name, []).append(command)
    return [*by_name.values()]


BASELINES = {
    "baseline-job-user": (PROGRAM, False),
    "baseline-job-root": (SETID, False),
    "baseline-login-user": (PROGRAM, True),
    "baseline-login-root": (SETID, True),
}
"""Label → witness, and whether it runs on a login node: without their lines no other proves anything."""


def script(runs: Iterable[Run], at_once: int, seconds: int, step: str) -> str:
    """A shell script that runs lines side by side; what each prints, and its status, lies in a file of its label."""
    rows = "".join(
        f"cd {FOLDER}; export WITNESS={run.label} LD_PRELOAD={LIBRARY}; {run.shell(seconds)} "
        f"> {FOLDER}/out/{run.label} 2>&1 < /dev/null; echo status=$? >> {FOLDER}/out/{run.label}; true\n"
        for run in runs
    )
    rows_file = f"{FOLDER}/{step}.lines"
    commands_text = f"cat > {rows_file} <<'LINES'\n{rows}LINES\n"
    return f"{commands_text}tr '\\n' '\\0' < {rows_file} | xargs -0 -P {at_once} -n 1 sh -c; true\n"
