"""Lines of the programs that start no job of their own: what they name leads where srun's options lead."""

from __future__ import annotations

from dataclasses import dataclass

from tests.witness.values import FOLDER, LISTS, PREFIX, PROGRAM, READ, WRITE

WENT_THROUGH = "status=0$"
KEPT = f"{FOLDER}/scratch/kept"
"""File with the number of the job in which lines begin."""
ATTACHED = "the witness goes on"
"""Output of the job's first step."""
TO_STEP = f'"$(cat {KEPT}).0"'
"""The job's first step, also for lines that begin on a login node."""


@dataclass(frozen=True)
class Command:
    """A line.

    Args:
        name: program and option.
        line: shell; ``{witness}`` stands for the witness with the line's label.
        shows: what its output has when it went through; without that, a witness shows it.
        works: whether it must go through.
        harms_nobody: whether the cluster stays as it is if an administrator's line goes through.
        is_nobodys: whether Slurm may do it for nobody of the jail, an administrator included.
    """

    name: str
    line: str
    shows: str = WENT_THROUGH
    works: bool = False
    harms_nobody: bool = True
    is_nobodys: bool = False

    @property
    def needs_job(self) -> bool:
        """Return whether it is about the job or the node in which it begins."""
        return "$SLURM" in self.line or self.name == "sbcast"


def _attach(option: str = "", *, works: bool = False) -> Command:
    name = f"sattach-{option or 'plain'}"
    flag = f"--{option} " if option else ""
    line = f"timeout 12 sattach {flag}{TO_STEP}"
    return Command(name, f"script -qec {line!r} /dev/null" if option == "pty" else line, ATTACHED, works)


def _casts() -> list[Command]:
    there = f"{FOLDER}/scratch/{{label}}"
    run = f"srun -n1 --overlap --mem=0 {there} label={{label}}"
    works = Command("sbcast", f"sh -c 'sbcast {PROGRAM} {there} && {run}'", "", works=True)
    wrong = [path.replace("%", "").format(name=f"{PREFIX}sbcast") for path in (*WRITE, "/tmp/{name}")]
    others = [Command("sbcast", f"sbcast --force {PROGRAM} {path}") for path in wrong]
    return [works, *others, Command("sbcast-jobid", f"sbcast --jobid=1 {PROGRAM} /tmp/{PREFIX}sbcast")]


def _writes() -> list[Command]:
    wrong = [path.replace("%", "").format(name=f"{PREFIX}scontrol") for path in WRITE]
    return [
        *(Command("scontrol-write", f"scontrol write config {path}") for path in wrong),
        *(Command("scontrol-write", f'scontrol write batch_script "$SLURM_JOB_ID" {path}') for path in wrong),
        *(Command("sacctmgr-dump", f'sacctmgr -i dump "$SLURM_CLUSTER_NAME" file={path}') for path in wrong),
    ]


ARCHIVES = (
    f"dump directory={FOLDER}/scratch",
    "dump script=/bin/true",
    "load insert='do 1'",
    f"load file={LISTS}/nodes",
)
"""Each has slurmdbd write, run or read something of its own pod's, or run SQL."""
COMMANDS: tuple[Command, ...] = (
    _attach(works=True),
    _attach("pty"),
    _attach("debugger-test"),
    *_casts(),
    Command("strigger-program", f'strigger --set --fini --jobid="$SLURM_JOB_ID" --program={PROGRAM}', is_nobodys=True),
    Command("strigger-program", "strigger --set --up --program=/bin/true", is_nobodys=True),
    Command("strigger-user", "strigger --get --user=0"),
    Command("scrontab", f"scrontab {LISTS}/crontab"),
    Command("scrontab-u", f"scrontab -u root {LISTS}/crontab"),
    Command("scrontab-u", "scrontab -u root -l"),
    *_writes(),
    Command("scontrol-getent", 'scontrol getent "$SLURMD_NODENAME"'),
    *(Command(f"scontrol-{name}", f"scontrol {name}") for name in ("listjobs", "listpids", "liststeps")),
    Command("scontrol-pidinfo", "scontrol pidinfo 1"),
    *(
        Command(f"scontrol-{words.split()[0]}", f'scontrol {words} "$SLURMD_NODENAME"', harms_nobody=False)
        for words in ("reboot", "cancel_reboot", "power down", "power up")
    ),
    Command("scontrol-token", "scontrol token lifespan=60"),
    Command("scontrol-token", "scontrol token username=root lifespan=60", is_nobodys=True),
    Command("scontrol-uid", 'scontrol --uid=0 update jobid="$SLURM_JOB_ID" comment=x'),
    Command("scancel-user", "scancel --user=root"),
    *(Command("sacctmgr-archive", f"sacctmgr -i archive {words}", is_nobodys=True) for words in ARCHIVES),
    *(Command("sacctmgr-load", f"sacctmgr -i load {path}") for path in READ[:4]),
)
"""All that options.py classifies as more than harmless, of the programs that do not share srun's table."""
