"""C, Python and the image's files use the same names."""

import re
from pathlib import Path

import pytest
from node_health import node
from slurm_node.conditions import jail_watch
from slurm_node.jail import door
from slurm_node.pod import cgroups, paths
from slurm_node.roots import image_root
from slurm_node.slurm import cred_state

from contract import names
from contract import paths as shared

REPOSITORY = Path(__file__).resolve().parents[2]


def test_nothing_of_an_image_is_copied_over_the_tools() -> None:
    assert paths.TOOLS.parts[1] in image_root.LEFT_OUT


def test_slurm_starts_the_programs_that_the_image_brings() -> None:
    prolog = (REPOSITORY / "health/bin/node-health-prolog").read_text()
    assert f" {paths.PROLOG_REFUSED}\n" in prolog
    assert f" {paths.PLUGIN_REFUSED};" in prolog
    epilog = (REPOSITORY / "health/bin/node-health-epilog").read_text()
    assert all(f'"{paths.PROLOGS}/$SLURM_JOB_ID"\n' in script for script in (prolog, epilog))
    for program in (shared.HEALTH_PROGRAM, shared.HEALTH_PROLOG, shared.HEALTH_EPILOG):
        script = (REPOSITORY / "health/bin" / Path(program).name).read_text()
        assert Path(program).parent == Path("/usr/sbin")
        assert "/usr/sbin/node-health --record" in script or f"{node.JAIL_BROKEN} {node.UNFIT} " in script


@pytest.mark.parametrize(
    ("file", "name", "value"),
    [
        ("jail/jail.h", "JAIL_DEFAULT_ROOT", paths.TREE),
        ("jail/jail.h", "JAIL_MARKER", paths.MARKER.relative_to(paths.TREE)),
        ("login/nss_jail.c", "JAIL", paths.TREE),
        ("spank/spank_jail.h", "SPANK_JAIL", paths.PLUGIN),
        ("stepd/stepd_guard.c", "GUARD_PLUGIN", paths.PLUGIN),
        ("stepd/stepd_guard.c", "GUARD_REFUSED", paths.PLUGIN_REFUSED),
        ("stepd/stepd_guard.c", "DEFAULT_CONFIGURATION", paths.FETCHED / names.SLURM_CONF),
        ("stepd/stepd_open.c", "SPOOL", paths.SPOOL),
        ("jail/job_mounts.h", "VIEW_SPOOL", paths.SPOOL),
        ("jail/job_mounts.h", "VIEW_CGROUPS", cgroups.CGROUPS),
        ("jail/job_mounts.c", "SOCKETS", paths.SLURM_RUN),
        ("jail/job_mounts.c", "NODE_FILES", paths.DRIVER.parent),
        ("job/job.h", "JOB_FOLDER", paths.JOBS),
        ("job/job.h", "JOB_INIT", paths.JAIL_PROBE.parent / "job_init"),
        ("job/job.h", "JOB_INIT_GROUP", cgroups.CGROUPS / cgroups.PROCESSES_FOLDER / "cgroup.procs"),
        ("job/job.h", "JOB_BROKEN", paths.JAIL_BROKEN),
        ("job/job.h", "JOB_LIVES", cred_state.JOB_LIVES),
        ("job/job.h", "JOB_REFUSED", paths.PROLOG_REFUSED),
        ("spank/late_program.h", "LATE_RUNNER", paths.JAIL_PROBE.parent / "late_runner"),
        ("login/user_limits.h", "USER_LIMITS", paths.LOGIN_LIMITS),
        ("login/su.c", "PROFILE_LIMITS", paths.PROFILE_LIMITS),
        ("programs/sbcast.c", "SBCAST_SRUN", paths.PREFIX / "bin/srun"),
        ("programs/slurmd_start.c", "START_SLURMD", paths.SLURMD),
        ("doors/root_guard.c", "ROOT_GUARD_DOOR", paths.SLURM_RUN / door.MARK),
        ("doors/slurm_ids.h", "SLURM_ID", names.SLURM_UID),
        ("doors/slurm_ids.h", "SLURMREST_ID", names.SLURMREST_UID),
        ("doors/message_guard.c", "DEFAULT_CONFIGURATION", paths.FETCHED / names.SLURM_CONF),
        ("doors/message_guard.c", "PMI2_FOLDER", Path(shared.MPI_PLUGIN_DIRS["pmi2"]).name),
        ("programs/jail_probe.c", "PROBE_JOB", int(jail_watch.PROBE_JOB)),
    ],
)
def test_the_native_programs_name_the_same_paths_and_ids(file: str, name: str, value: Path | str | int) -> None:
    written = str(value) if isinstance(value, int) else f'"{value}"'
    assert f"\n#define {name} {written}\n" in (REPOSITORY / "native" / file).read_text()


def test_jobs_see_the_door_and_the_configuration_beside_each_other() -> None:
    view = (REPOSITORY / "native/jail/job_mounts.c").read_text()
    assert f'#define DOOR SOCKETS "/{paths.DOOR.name}"\n' in view
    assert f'#define CONFIGURATION SOCKETS "/{paths.FETCHED.name}"\n' in view


def test_the_images_files_name_the_same_paths_and_ids() -> None:
    slurm = REPOSITORY / "images/slurm"
    assert f"pam_jail.so {paths.TREE}" in (slurm / "rootfs/etc/pam.d/sshd").read_text()
    sshd = (slurm / "rootfs/etc/ssh/sshd_config").read_text()
    assert f"AuthorizedKeysFile {paths.TREE}%h/" in sshd
    assert f"Banner {paths.SSH_BANNER}\n" in sshd
    assert all(f"HostKey {paths.SSH_KEYS}/" in line for line in re.findall(r"^HostKey .*$", sshd, re.MULTILINE))
    for name in ("slurm", "jail"):
        assert f"slurm:x:{names.SLURM_UID}:" in (REPOSITORY / "images" / name / "Containerfile").read_text()
