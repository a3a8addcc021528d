"""Facts that the native programs share with Python, under their names in C; native/contract.h is made from them.

`.venv/bin/python -m tests.unit.golden_files` writes that header. A build of tests/native may define each name anew.
"""

from typing import Final

from contract import names, paths

JOB_LIVES: Final = 1
"""The byte of a job's file that its init holds locked for as long as it lives (native/job/job.h)."""
PROBE_JOB: Final = 0
"""Job number of a probe's namespaces. No job has it: Slurm counts from 1."""

DEFINES: Final[dict[str, str | int]] = {
    "SLURM_ID": names.SLURM_UID,
    "SLURMREST_ID": names.SLURMREST_UID,
    "TREE_WIDTH": names.TREE_WIDTH,
    "JAIL_DEFAULT_ROOT": paths.JAIL_TREE,
    "JAIL_MARKER": paths.JAIL_MARKER,
    "JAIL_NODE_FILES": paths.JAIL_NODE_FILES,
    "SLURM_SOCKETS": paths.SLURM_RUN,
    "SLURM_DOOR": paths.DOOR,
    "SLURM_DOOR_MARK": paths.DOOR_MARK,
    "SLURM_FETCHED": paths.FETCHED,
    "SLURM_CONFIGURATION": f"{paths.FETCHED}/{names.SLURM_CONF}",
    "SLURMD_SPOOL": paths.SPOOL_DIR,
    "SLURMD": paths.SLURMD,
    "SRUN": paths.SRUN,
    "SPANK_JAIL": paths.SPANK_PLUGIN,
    "PMI2_FOLDER": paths.MPI_PLUGIN_DIRS["pmi2"].rpartition("/")[2],
    "CGROUPS": paths.CGROUPS,
    "LATE_RUNNER": paths.LATE_RUNNER,
    "JOB_INIT": paths.JOB_INIT,
    "JOB_INIT_GROUP": f"{paths.CGROUP_OF_POD}/cgroup.procs",
    "JOB_FOLDER": paths.JOBS,
    "JOB_LIVES": JOB_LIVES,
    "JOB_BROKEN": paths.JAIL_BROKEN,
    "JOB_REFUSED": paths.PROLOG_REFUSED,
    "GUARD_REFUSED": paths.PLUGIN_REFUSED,
    "USER_LIMITS": paths.LOGIN_LIMITS,
    "PROFILE_LIMITS": paths.PROFILE_LIMITS,
    "PROBE_JOB": PROBE_JOB,
    "VIEW_SECRETS": paths.SECRETS_SLURM.rpartition("/")[0],
    "VIEW_RUN": paths.SLURM_RUN.rpartition("/")[0],
    "VIEW_VOLUME": paths.JAIL_VOLUME,
    "VIEW_OWN_RUN": paths.NODE_RUN,
    "VIEW_PREPARED": paths.STEPD_VIEW,
    "VIEW_MOUNTS": paths.STEPD_VIEW_MOUNTS,
    "VIEW_KEY": f"{paths.NODE_RUN}/{names.SLURM_KEY}",
}
"""Name in C → value."""
_HEAD = """\
/* Made from contract/native.py, by `.venv/bin/python -m tests.unit.golden_files`. Change it there. What each path is,
 * contract/paths.py says. */
#ifndef PULUMI_SLURM_CONTRACT_H
#define PULUMI_SLURM_CONTRACT_H

"""


def header() -> str:
    """Return native/contract.h."""
    values = {name: f'"{value}"' if isinstance(value, str) else str(value) for name, value in DEFINES.items()}
    defines = (f"#ifndef {name}\n#define {name} {value}\n#endif\n" for name, value in values.items())
    return f"{_HEAD}{''.join(defines)}\n#endif\n"
