"""What C, Python and the image's files name must be the same."""

import re
from pathlib import Path

from slurm_node import accounts, paths

from components import names

REPOSITORY = Path(__file__).resolve().parents[2]


def test_paths_agree_with_what_is_declared() -> None:
    assert str(paths.VOLUME) == names.JAIL_VOLUME
    assert str(paths.TREE) == names.JAIL_TREE
    assert str(paths.SPOOL) == names.SPOOL_DIR
    assert str(paths.SLURM_SECRETS) == names.SECRETS_SLURM
    assert str(paths.SSH_SECRETS) == names.SECRETS_SSH
    assert str(paths.CONTROLLER_RUN) == names.CONTROLLER_RUN
    assert str(paths.TOOLS) == names.TOOLS
    assert str(paths.PLUGIN.parent) == names.PLUGIN_DIR
    assert accounts.SLURM_ID == names.SLURM_UID


def test_the_native_programs_name_the_same_paths() -> None:
    header = (REPOSITORY / "native/jail.h").read_text()
    assert f'#define JAIL_DEFAULT_ROOT "{paths.TREE}"' in header
    assert f'#define JAIL_MARKER "{paths.MARKER.relative_to(paths.TREE)}"' in header
    assert f'#define GUARD_PLUGIN "{paths.PLUGIN}"' in (REPOSITORY / "native/stepd_guard.c").read_text()
    assert f'#define VIEW_SPOOL "{paths.SPOOL}"' in (REPOSITORY / "native/view.h").read_text()
    assert f'#define JOB_FOLDER "{paths.OWN_RUN}/' in (REPOSITORY / "native/job.h").read_text()
    assert f'#define JOB_BROKEN "{paths.JAIL_BROKEN}"' in (REPOSITORY / "native/job.h").read_text()
    assert f'#define JOB_KEEPER "{paths.JAIL_TRIAL.parent}/' in (REPOSITORY / "native/job.h").read_text()


def test_the_images_files_name_the_same_paths_and_ids() -> None:
    slurm = REPOSITORY / "images/slurm"
    assert f"pam_jail.so {paths.TREE}" in (slurm / "rootfs/etc/pam.d/sshd").read_text()
    sshd = (slurm / "rootfs/etc/ssh/sshd_config").read_text()
    assert f"AuthorizedKeysFile {paths.TREE}%h/" in sshd
    assert all(f"HostKey {paths.SSH_KEYS}/" in line for line in re.findall(r"^HostKey .*$", sshd, re.MULTILINE))
    for name in ("slurm", "jail"):
        assert f"slurm:x:{accounts.SLURM_ID}:" in (REPOSITORY / "images" / name / "Containerfile").read_text()
