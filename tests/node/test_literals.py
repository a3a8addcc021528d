"""What C, Python and the image's files name must be the same."""

import re
from pathlib import Path

from node_health import node, report
from node_health.checks import space
from slurm_node import accounts, cgroups, door, drains, image_root, jail_watch, paths, rehearsal

from components import names

REPOSITORY = Path(__file__).resolve().parents[2]


def test_paths_agree_with_what_is_declared() -> None:
    assert str(paths.VOLUME) == names.JAIL_VOLUME
    assert str(paths.TREE) == names.JAIL_TREE
    assert str(paths.SPOOL) == names.SPOOL_DIR
    assert str(paths.ETC_ROOTS) == names.ETC_ROOTS
    assert str(paths.SLURM_SECRETS) == names.SECRETS_SLURM
    assert str(paths.SSH_SECRETS) == names.SECRETS_SSH
    assert str(paths.CONTROLLER_RUN) == names.CONTROLLER_RUN
    assert str(paths.TOOLS) == names.TOOLS
    assert paths.TOOLS.parts[1] in image_root.LEFT_OUT, "what an image has is copied"
    assert str(paths.PLUGIN.parent) == names.PLUGIN_DIR
    assert accounts.SLURM_ID == names.SLURM_UID
    assert rehearsal.PORT == names.REHEARSAL_PORT


def test_health_checks_and_the_entry_meet_in_the_same_files() -> None:
    assert (node.FOLDER, node.JAIL_BROKEN, node.JAIL_WORKED) == (paths.OWN_RUN, paths.JAIL_BROKEN, paths.JAIL_WORKED)
    assert space.SHARED["the jail"] == paths.TREE
    assert space.OWN == {"/tmp": paths.TREE / "tmp", "slurmd's spool": paths.SPOOL}
    assert f"{report.REASON_PREFIX} " in drains.PREFIXES


def test_slurm_starts_the_programs_that_the_image_brings() -> None:
    prolog = (REPOSITORY / "health/bin/node-health-prolog").read_text()
    assert f" {paths.PROLOG_REFUSED}\n" in prolog
    assert f" {paths.PLUGIN_REFUSED};" in prolog
    for program in (names.HEALTH_PROGRAM, names.HEALTH_PROLOG, names.HEALTH_EPILOG):
        script = (REPOSITORY / "health/bin" / Path(program).name).read_text()
        assert Path(program).parent == Path("/usr/sbin")
        assert "/usr/sbin/node-health --record" in script or f"{node.JAIL_BROKEN} {node.UNFIT} " in script


def test_the_native_programs_name_the_same_paths() -> None:
    header = (REPOSITORY / "native/jail.h").read_text()
    assert f'#define JAIL_DEFAULT_ROOT "{paths.TREE}"' in header
    assert f'#define JAIL_MARKER "{paths.MARKER.relative_to(paths.TREE)}"' in header
    assert f'#define GUARD_PLUGIN "{paths.PLUGIN}"' in (REPOSITORY / "native/stepd_guard.c").read_text()
    assert f'#define VIEW_SPOOL "{paths.SPOOL}"' in (REPOSITORY / "native/job_mounts.h").read_text()
    assert f'#define JOB_FOLDER "{paths.JOBS}"' in (REPOSITORY / "native/job.h").read_text()
    assert f"#define PROBE_JOB {jail_watch.PROBE_JOB}\n" in (REPOSITORY / "native/jail_probe.c").read_text()
    assert f'#define JOB_BROKEN "{paths.JAIL_BROKEN}"' in (REPOSITORY / "native/job.h").read_text()
    assert f'#define JOB_REFUSED "{paths.PROLOG_REFUSED}"' in (REPOSITORY / "native/job.h").read_text()
    view = (REPOSITORY / "native/job_mounts.c").read_text()
    assert f'#define SOCKETS "{paths.SLURM_RUN}"\n#define DOOR SOCKETS "/{paths.DOOR.name}"\n' in view
    assert f'#define CONFIGURATION SOCKETS "/{paths.FETCHED.name}"\n' in view
    guard = (REPOSITORY / "native/root_guard.c").read_text()
    assert f'#define ROOT_GUARD_DOOR "{paths.SLURM_RUN}/{door.MARK}"\n' in guard
    door_c = (REPOSITORY / "native/sack_door.c").read_text()
    assert f"#define SLURM_ID {names.SLURM_UID}\n#define SLURMREST_ID {names.SLURMREST_UID}\n" in door_c
    messages = (REPOSITORY / "native/message_guard.c").read_text()
    assert f"#define SLURM_ID {names.SLURM_UID}\n" in messages
    assert f'#define DEFAULT_CONFIGURATION "{paths.FETCHED}/{names.SLURM_CONF}"\n' in messages
    assert f'#define PMI2_FOLDER "{Path(names.MPI_PLUGIN_DIRS["pmi2"]).name}"\n' in messages
    leaf = cgroups.CGROUPS / cgroups.PROCESSES_FOLDER
    assert f'#define JOB_INIT_GROUP "{leaf}/cgroup.procs"' in (REPOSITORY / "native/job.h").read_text()
    assert f'#define JOB_INIT "{paths.JAIL_PROBE.parent}/' in (REPOSITORY / "native/job.h").read_text()


def test_the_images_files_name_the_same_paths_and_ids() -> None:
    slurm = REPOSITORY / "images/slurm"
    assert f"pam_jail.so {paths.TREE}" in (slurm / "rootfs/etc/pam.d/sshd").read_text()
    sshd = (slurm / "rootfs/etc/ssh/sshd_config").read_text()
    assert f"AuthorizedKeysFile {paths.TREE}%h/" in sshd
    assert f"Banner {paths.SSH_BANNER}\n" in sshd
    assert all(f"HostKey {paths.SSH_KEYS}/" in line for line in re.findall(r"^HostKey .*$", sshd, re.MULTILINE))
    for name in ("slurm", "jail"):
        assert f"slurm:x:{accounts.SLURM_ID}:" in (REPOSITORY / "images" / name / "Containerfile").read_text()
