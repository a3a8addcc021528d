"""Every option of the programs that users start, and what kind of thing it names: a new Slurm brings a failing test.

The programs' own parsers tell which options they have (``listed``): a name that is a beginning of all is ambiguous.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping


class Kind(enum.Enum):
    """Kind of an option's value."""

    READ = "a path that somebody reads"
    WRITE = "a path that somebody writes"
    PROGRAM = "a program that somebody runs"
    USER = "a user or a group"
    ADDRESS = "a network address"
    ENVIRONMENT = "variables, limits or a plugin of the job"
    MODE = "who does the work, and where: tried as it is"
    HARMLESS = "nothing of these"


Table = Mapping[str, tuple[Kind, str]]


def _table(*rows: tuple[Kind, str, str]) -> Table:
    """Rows of kind, why it is so, and options in words."""
    classified: dict[str, tuple[Kind, str]] = {}
    for kind, why, names in rows:
        for name in names.split():
            assert name not in classified, f"{name} is classified twice"
            classified[name] = (kind, why)
    return classified


_JOB = _table(
    (Kind.READ, "srun or slurmstepd opens it", "input"),
    (Kind.READ, "the client reads it", "bbf nodefile export-file"),
    (Kind.READ, "srun reads a list of programs, and slurmstepd expands its words", "multi-prog"),
    (Kind.READ, "slurmstepd or the client reads a bundle", "container"),
    (Kind.WRITE, "srun or slurmstepd opens it", "output error"),
    (Kind.WRITE, "slurmd writes it", "bcast"),
    (Kind.WRITE, "slurmstepd enters it", "chdir"),
    (Kind.PROGRAM, "srun runs it", "prolog epilog"),
    (Kind.PROGRAM, "slurmstepd runs it", "task-prolog task-epilog"),
    (Kind.PROGRAM, "the job's script", "wrap"),
    (Kind.USER, "who the job is", "uid gid"),
    (Kind.USER, "slurmctld's mail program gets it", "mail-user"),
    (Kind.ADDRESS, "slurmstepd connects to the display", "x11"),
    (Kind.ADDRESS, "a switch plugin reads it", "network"),
    (Kind.ENVIRONMENT, "variables of tasks", "export"),
    (Kind.ENVIRONMENT, "limits of tasks", "propagate"),
    (Kind.ENVIRONMENT, "a plugin that slurmstepd loads", "mpi container-type"),
    (Kind.ENVIRONMENT, "a security context", "context"),
    (Kind.ENVIRONMENT, "a container of the node", "container-id"),
    (Kind.MODE, "slurmd runs the user's start-up files", "get-user-env"),
    (Kind.MODE, "slurmstepd speaks to users", "stepmgr"),
    (Kind.MODE, "a step of another kind", "external-launcher external interactive pty no-allocate debugger-test"),
    (Kind.HARMLESS, "shapes what --bcast copies", "bcast-exclude compress send-libs"),
    (
        Kind.HARMLESS,
        "a number, a time or a name that slurmctld decides by",
        """account acctg-freq array autocomplete batch bb begin cluster cluster-constraint clusters comment
        consolidate-segments constraint contiguous core-spec cores-per-socket cpus-per-gpu cpus-per-task deadline
        delay-boot dependency distribution exact exclude exclusive extra extra-node-info gpus gpus-per-node
        gpus-per-socket gpus-per-task gres gres-flags het-group hint hold immediate job-name jobid
        kill-on-invalid-dep licenses mail-type mcs-label mem mem-per-cpu mem-per-gpu mincpus nice no-kill no-requeue
        nodelist nodes ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket ntasks-per-tres
        overcommit overlap oversubscribe pack-group partition prefer priority qos reboot relative requeue reservation
        resources resv-ports segment signal sockets-per-node spread-job spread-segments switches tasks-per-node
        thread-spec threads-per-core time time-min tmp tres-per-task use-min-nodes wait-all-nodes wckey whole""",
    ),
    (
        Kind.HARMLESS,
        "how tasks are bound, counted and ended",
        """accel-bind cpu-bind cpu_bind cpu-freq gpu-bind gpu-freq mem-bind mem-update tres-bind oom-kill-step
        kill-on-bad-exit wait wait-for-children profile slurmd-debug open-mode""",
    ),
    (
        Kind.HARMLESS,
        "what the client itself does and prints",
        """async bell disable-status help ignore-pbs ignore-signals kill-command label msg-timeout no-bell no-shell
        parsable preserve-env quiet quit-on-interrupt test-only threads treewidth unbuffered usage verbose version""",
    ),
)
_ATTACH = _table(
    (Kind.MODE, "a step of a kind of its own", "pty debugger-test"),
    (
        Kind.HARMLESS,
        "what the client prints",
        "autocomplete error-filter help input-filter label layout output-filter quiet usage verbose version",
    ),
)
_CAST = _table(
    (Kind.HARMLESS, "shapes the copy, which a step of the job makes", "compress exclude fanout force preserve size"),
    (Kind.HARMLESS, "shapes the copy, which a step of the job makes", "send-libs timeout treewidth verbose"),
    (Kind.MODE, "another job's files", "jobid"),
)
_TRIGGER = _table(
    (Kind.PROGRAM, "slurmctld runs it", "program"),
    (Kind.USER, "filters what is shown", "user"),
    (
        Kind.HARMLESS,
        "which event, and how it is shown",
        """autocomplete backup_slurmctld_assumed_control backup_slurmctld_failure backup_slurmctld_resumed_operation
        burst_buffer clear cluster clusters down drained draining fail fini flags get help id idle jobid node noheader
        offset primary_database_failure primary_database_resumed_operation primary_slurmctld_acct_buffer_full
        primary_slurmctld_failure primary_slurmctld_resumed_control primary_slurmctld_resumed_operation
        primary_slurmdbd_failure primary_slurmdbd_resumed_operation quiet reconfig resume set time up usage verbose
        version""",
    ),
)
_CONTROL = _table(
    (Kind.USER, "as whom a job is updated", "uid"),
    (
        Kind.HARMLESS,
        "what the client prints",
        """all autocomplete cluster clusters details federation future help hide json local oneliner quiet sibling usage
        verbose version yaml""",
    ),
)
_CANCEL = _table(
    (Kind.USER, "whose jobs", "user"),
    (
        Kind.HARMLESS,
        "which jobs, by what slurmctld knows of them",
        """account admin-comment autocomplete batch cluster clusters cron ctld full help hurry interactive jobname me
        name nodelist partition qos quiet reservation sibling signal state usage verbose version wckey""",
    ),
)
_ACCOUNTS = _table(
    (
        Kind.HARMLESS,
        "what the client prints",
        """associations autocomplete help immediate json noheader oneliner parsable parsable2 quiet readonly usage
        verbose version yaml""",
    )
)
_CRON = _table(
    (Kind.USER, "whose table", "-u"),
    (Kind.HARMLESS, "the table goes to slurmctld as text; its lines are batch jobs", "-e -l -r -v"),
)

OPTIONS: Mapping[frozenset[str], Table] = {
    frozenset({"srun", "sbatch", "salloc"}): _JOB,
    frozenset({"sattach"}): _ATTACH,
    frozenset({"sbcast"}): _CAST,
    frozenset({"strigger"}): _TRIGGER,
    frozenset({"scontrol"}): _CONTROL,
    frozenset({"scancel"}): _CANCEL,
    frozenset({"sacctmgr"}): _ACCOUNTS,
    frozenset({"scrontab"}): _CRON,
}
"""Programs that share a table → option → its kind, and why."""

COMMANDS: Mapping[str, Table] = {
    "scontrol": _table(
        (Kind.WRITE, "the client, or slurmctld, writes a file", "write"),
        (Kind.READ, "asks the node's slurmstepd", "getent listjobs listpids liststeps pidinfo"),
        (Kind.PROGRAM, "slurmd runs what the configuration names", "power reboot cancel_reboot"),
        (Kind.USER, "mints a token", "token"),
        (
            Kind.HARMLESS,
            "slurmctld decides it by who asks",
            """abort completing create delete fsdampeningfactor hold holdu notify ping reconfigure release requeue
            requeuehold resume setdebug setdebugflags schedloglevel show shutdown suspend takeover top uhold update
            wait_job""",
        ),
        (
            Kind.HARMLESS,
            "what the client prints",
            "all cluster details errnumstr exit help hide oneliner quiet quit verbose version !!",
        ),
    ),
    "sacctmgr": _table(
        (Kind.WRITE, "the client, or slurmdbd, writes a file", "dump archive"),
        (Kind.READ, "the client reads a file", "load"),
        (Kind.HARMLESS, "slurmdbd decides it by who asks", "add clear delete modify reconfigure shutdown"),
        (
            Kind.HARMLESS,
            "what the client prints",
            """associations exit help list oneliner parsable parsable2 ping quiet quit readonly show verbose version
            !!""",
        ),
    ),
}
"""Commands of the two programs that have some, likewise."""


OTHERS: Mapping[str, str] = {
    **dict.fromkeys(("sinfo", "sprio", "squeue", "sdiag"), "asks slurmctld, and prints the answer"),
    **dict.fromkeys(("sacct", "sreport", "sshare"), "asks slurmdbd or slurmctld, and prints the answer"),
    "sstat": "asks slurmd, which asks slurmstepd: rpcs.py has the message",
    "swait": "asks slurmctld, and waits for messages of its own user",
    "scrun": "a container runtime that runs as its user: Slurm gives it jobs and steps as srun --container has them",
    "slurm-check-report": "ours: asks slurmctld to write its own job's Comment, by scontrol as its user",
    "slurm-image": "ours: unpacks an image as its user",
    "slurm-user": "ours: root of the jail alone writes account files",
}
"""Programs that only ask, or that act as their user alone, and why."""


def listed(said: str) -> set[str]:
    """The options in what a program says of an ambiguous one; single letters in a usage."""
    return set(re.findall(r"'--([a-z0-9_-]+)'", said)) or set(re.findall(r"(?<=[ |\[\t])(-[a-z])(?=[ \]\t])", said))


def commands(said: str) -> set[str]:
    """The commands in the help of scontrol or sacctmgr."""
    return set(re.findall(r"^     ([a-z!][\w!]*)", said, re.MULTILINE))


def program_differences(found: set[str]) -> list[str]:
    """One sentence for each program that no table has, or that is no more."""
    known = {*OTHERS, *(program for programs in OPTIONS for program in programs)}
    return [
        *(f"Slurm has {name}, which tests/witness/options.py does not classify" for name in sorted(found - known)),
        *(f"Slurm has no {name} any more: take it out of tests/witness/options.py" for name in sorted(known - found)),
    ]


def differences(table: Table, found: set[str], who: str) -> list[str]:
    """One sentence for each option or command that is not classified, or is no more."""
    return [
        *(f"{who} has {name}, which tests/witness/options.py does not classify" for name in sorted(found - {*table})),
        *(
            f"{who} has no {name} any more: take it out of tests/witness/options.py"
            for name in sorted({*table} - found)
        ),
    ]
