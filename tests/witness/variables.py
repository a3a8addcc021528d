"""Short options and input variables of srun, sbatch and salloc: which option each stands for.

The programs' own parsers and texts tell which there are (``shorts``, ``found``): a new Slurm brings a failing test.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

SHORT: Mapping[str, str] = {
    "A": "account", "B": "extra-node-info", "C": "constraint", "D": "chdir", "E": "preserve-env", "F": "nodefile",
    "G": "gpus", "H": "hold", "I": "immediate", "J": "job-name", "K": "kill-on-bad-exit", "L": "licenses",
    "M": "clusters", "N": "nodes", "O": "overcommit", "Q": "quiet", "S": "core-spec", "T": "threads",
    "V": "version", "W": "wait", "X": "disable-status", "Z": "no-allocate", "a": "array", "b": "begin",
    "c": "cpus-per-task", "d": "dependency", "e": "error", "h": "help", "i": "input", "k": "no-kill", "l": "label",
    "m": "distribution", "n": "ntasks", "o": "output", "p": "partition", "q": "qos", "r": "relative",
    "s": "oversubscribe", "t": "time", "u": "unbuffered", "v": "verbose", "w": "nodelist", "x": "exclude",
}  # fmt: skip
"""Letter → option."""
SHORT_OF_ONE: Mapping[str, Mapping[str, str]] = {"salloc": {"K": "kill-command"}}
"""Program → letters that mean another option there."""
PREFIXES = {"srun": ("SRUN_", "SLURM_"), "sbatch": ("SBATCH_", "SLURM_"), "salloc": ("SALLOC_", "SLURM_")}
OTHERWISE: Mapping[str, str] = {
    "ARRAY_INX": "array",
    "BURST_BUFFER": "bb",
    "CPU_FREQ_REQ": "cpu-freq",
    "DEBUG": "verbose",
    "DIST_PLANESIZE": "distribution",
    "EXPORT_ENV": "export",
    "JOBID": "jobid",
    "JOB_ACCOUNT": "account",
    "JOB_DEPENDENCY": "dependency",
    "JOB_ID": "jobid",
    "JOB_NODELIST": "nodelist",
    "JOB_NUM_NODES": "nodes",
    "JOB_PARTITION": "partition",
    "JOB_QOS": "qos",
    "JOB_RESERVATION": "reservation",
    "JOB_SEGMENT_SIZE": "segment",
    "KILL_BAD_EXIT": "kill-on-bad-exit",
    "KILL_CMD": "kill-command",
    "LABELIO": "label",
    "MEM_PER_NODE": "mem",
    "MPI_TYPE": "mpi",
    "NCORES_PER_SOCKET": "cores-per-socket",
    "NPROCS": "ntasks",
    "NSOCKETS_PER_NODE": "sockets-per-node",
    "POWER": "cpu-freq",
    "REMOTE_CWD": "chdir",
    "REQ_SWITCH": "switches",
    "SEGMENT_SIZE": "segment",
    "SRUN_MULTI": "multi-prog",
    "STDERRMODE": "error",
    "STDINMODE": "input",
    "STDOUTMODE": "output",
    "STEP_GRES": "gres",
    "TIMELIMIT": "time",
    "UNBUFFEREDIO": "unbuffered",
    "WAIT4SWITCH": "switches",
    "WORKING_DIR": "chdir",
}
"""Variables without their prefix whose names are not their options'."""
NO_OPTION = {
    "SLURMD_DEBUG", "SLURM_ARBITRARY_NODELIST", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_CLUSTER_NAME",
    "SLURM_EXIT_ERROR", "SLURM_EXIT_IMMEDIATE", "SLURM_HET_SIZE", "SLURM_JOB_CPUS_PER_NODE", "SLURM_JOB_NAME",
    "SLURM_JWT", "SLURM_MEM_BIND_VERBOSE", "SLURM_PACK_SIZE", "SLURM_RLIMIT_", "SLURM_SCRIPT_CONTEXT", "SLURM_SPANK_",
    "SLURM_SRUN_REDUCE_TASK_EXIT_MSG", "SLURM_TEST_EXEC", "SLURM_UMASK", "SLURM_WORKING_CLUSTER",
}  # fmt: skip
"""Numbers, names and lists of nodes that a client tells or is told, limits of tasks, and tokens: none names a path."""


def option_of(program: str, variable: str, options: Collection[str]) -> str:
    """The option that a variable stands for; nothing if it stands for none."""
    for prefix in PREFIXES[program]:
        if variable.startswith(prefix):
            tail = variable.removeprefix(prefix)
            option = OTHERWISE.get(tail, tail.lower().replace("_", "-"))
            return option if option in options else ""
    return ""


def variables_of(program: str, option: str, variables: Collection[str], options: Collection[str]) -> list[str]:
    """The variables that stand for an option."""
    return [name for name in sorted(variables) if option_of(program, name, options) == option]


def found(text: str) -> set[str]:
    """The variables in a program's text."""
    return set(re.findall(r"\b(?:SLURMD?|SRUN|SBATCH|SALLOC)_[A-Z0-9_]+\b", text))


def shorts(said: str) -> set[str]:
    """The letters that a program takes, of lines ``LETTER: WHAT-IT-SAID``."""
    return set(re.findall(r"^(\w): (?!.*(?:invalid|unrecognized) option)", said, re.MULTILINE))


def differences(
    program: str, options: Collection[str], variables: Collection[str], letters: Collection[str]
) -> list[str]:
    """One sentence for each variable and each short option of a program that no table knows."""
    return [
        *(
            f"{program} reads {name}, which tests/witness/variables.py does not classify"
            for name in sorted(variables)
            if name not in NO_OPTION and not option_of(program, name, options)
        ),
        *(
            f"{program} has -{letter}, which tests/witness/variables.py does not classify"
            for letter in sorted(letters)
            if {**SHORT, **SHORT_OF_ONE.get(program, {})}.get(letter) not in options
        ),
    ]
