"""The outcome of each line: its witness ran, or Slurm refused it in known words. A misspelt line is neither."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tests.witness.runs import Run, Who


@dataclass(frozen=True)
class Refusal:
    """Words with which a line may end.

    Args:
        words: a pattern of what the line, or its job, says.
        options: of which options alone, as ``PROGRAM --OPTION`` or a part of it; of any, if there is none.
    """

    words: str
    options: tuple[str, ...] = ()

    def explains(self, run: Run, said: str) -> bool:
        """Return whether this is why a line went no further."""
        ours = not self.options or any(option in run.option for option in self.options)
        return ours and bool(re.search(self.words, said))


NOBODY = Refusal("root of the jail is nobody to Slurm")
"""To root of the jail Slurm's own commands say it before they begin (native/commands/root_guard.c)."""
PATHS = (
    "--input", "--output", "--error", "--chdir", "--bcast", "--container", "--bbf", "--nodefile", "--export-file",
    "sbcast", "scontrol-write", "sacctmgr-dump", "sacctmgr-load",
)  # fmt: skip
REFUSALS: tuple[Refusal, ...] = (
    Refusal(
        "Permission denied|No such file or directory|Not a directory|Is a directory|Read-only file system"
        "|No such device|Too many levels of symbolic links|Operation not permitted|Invalid cross-device link",
        PATHS,
    ),
    # So Slurm says of a job whose files slurmstepd could not open.
    Refusal("ExitCode=0:53|Slurmd could not connect IO", ("--input", "--output", "--error")),
    Refusal("Invalid --bbf specification", ("--bbf",)),
    Refusal(
        "Invalid node name specified|File name too long|submission failed|allocate failed|Unable to allocate resources"
        "|Invalid hostfile .* contents on line|Requested node configuration is not available",
        ("--nodefile",),
    ),
    Refusal(
        "Could not open multi_prog config file|Unable to open configuration file|onfiguration file .* (is )?invalid"
        "|configuration file .* too long|multi_prog config file .* is too large",
        ("--multi-prog",),
    ),
    Refusal("is no bundle|is not yours to read|is no configuration of a container", ("--container",)),
    Refusal("--bcast does not reach the jail", ("--bcast",)),
    # slurmd closes the connection of a client of the user's own before it reads the file (doors/message_guard.c).
    Refusal("REQUEST_FILE_BCAST.*Header lengths are longer than data received", ("--bcast",)),
    Refusal("has no folder", ("sbcast",)),
    Refusal("auth/slurm: cannot stat '/run/slurm/conf/slurm.key'", ("--no-allocate",)),
    Refusal("Could not open user environment file", ("--export-file",)),
    Refusal("Slurm job 1 has expired|Invalid job id|Access/permission denied", ("sbcast-jobid",)),
    Refusal("--stepmgr is refused", ("--stepmgr",)),
    Refusal("mpi/pmi2|Invalid MPI type", ("--mpi",)),
    Refusal("only permitted by root|permitted only by root|Invalid user id", ("--uid", "--gid")),
    Refusal("(?i)x11 forwarding", ("--x11",)),
    Refusal("--wrap option not permitted with --external", ("--external",)),
    # A job has one such step at a time.
    Refusal("Duplicate job step id", ("--interactive",)),
    # Its tasks wait for a debugger, until the line is ended.
    # On a login node the end may come before the allocation.
    Refusal("got SIGCONT|Force Terminated|has been revoked|Job has been cancelled", ("--debugger-test",)),
    # Lines of a login node may come after the job's end.
    Refusal("no tasks running|Invalid job id specified|already completing or completed", ("sattach",)),
    Refusal(
        "No slurmstepd's found on this node|No (job )?steps (exist|found) on this node",
        ("scontrol-list", "scontrol-getent"),
    ),
    Refusal("Failed to locate job for requested pid", ("scontrol-pidinfo",)),
    Refusal("scrontab is disabled on this cluster", ("scrontab",)),
    Refusal("Access/permission denied|Invalid user id", ("strigger", "scontrol", "scancel", "sacctmgr", "sattach")),
    Refusal(
        "(?i)not running a supported accounting_storage plugin|does not have sufficient privileges"
        "|is not in the accounting system",
        ("sacctmgr",),
    ),
    # native/doors/persist_guard.c says it, to an administrator, too.
    Refusal("an archive has slurmdbd run a program or SQL", ("sacctmgr-archive",)),
    # slurmctld reads triggers of SlurmUser alone, and closes the connection (native/doors/message_guard.c).
    Refusal("Zero Bytes were transmitted or received", ("strigger",)),
    Refusal("scontrol_reboot_nodes error:Permission denied", ("scontrol-reboot",)),
    # The client reads such a file, and says in many ways that it is no list of associations.
    Refusal("status=1$", ("sacctmgr-load",)),
)
OF_ANOTHERS_JOB = Refusal("Access/permission denied|Invalid user id|Expired or invalid job")
"""To somebody else whose line begins in the user's job."""


def failures(runs: Iterable[Run], told: Collection[str], said: Mapping[str, str]) -> list[str]:
    """One sentence for each line that neither ran nor was refused as it may be.

    Args:
        runs: the lines.
        told: labels whose witness has told from a program that the line starts.
        said: label → what the line and its job printed.
    """
    return [failure for run in runs if (failure := _failure(run, run.label in told, said.get(run.label, "")))]


def _failure(run: Run, told: bool, said: str) -> str:
    went_through = bool(re.search(run.shows, said, re.MULTILINE)) if run.shows else told
    shown = f"{run.line!r}: {said[-400:]!r}"
    if run.who is Who.ROOT and went_through:
        return f"{run.label}: Slurm did it for root of the jail: {shown}"
    if run.is_nobodys and went_through:
        return f"{run.label}: Slurm did it for somebody of the jail: {shown}"
    if went_through:
        return ""
    if run.option.count(" --") > 1:
        return ""  # Two options together say too much to know; each by itself is known.
    if run.works and run.who is not Who.ROOT:
        return f"{run.label} must go through: {shown}"
    known: Iterable[Refusal] = [NOBODY] if run.who is Who.ROOT else REFUSALS
    if run.who in {Who.OTHER, Who.ADMINISTRATOR} and not run.leaves_job:
        known = [*known, OF_ANOTHERS_JOB]
    if any(refusal.explains(run, said) for refusal in known):
        return ""
    return f"{run.label} neither ran nor was refused in known words: {shown}"
