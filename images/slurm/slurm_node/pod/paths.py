"""Paths in the slurm image's pods."""

from pathlib import Path

from contract import names
from contract import paths as shared

PREFIX = Path(shared.PREFIX)
PLUGIN = Path(shared.SPANK_PLUGIN)
STOCK_PLUGIN = Path(shared.PLUGIN_DIR, "auth_slurm.so")
"""A plugin that came with Slurm itself, built for the same version."""
JAIL_PROBE = PREFIX / "libexec/jail_probe"
SACK_DOOR = PREFIX / "libexec/sack_door"
NO_DRIVER = PREFIX / "driver/no_driver.so"
"""File in place of each library of NVIDIA's driver on a node without one."""
DRIVER = Path(shared.JAIL_NODE_FILES, "driver")
"""This node's driver, as the jail's processes see it."""
VOLUME = Path(shared.JAIL_VOLUME)
TREE = Path(shared.JAIL_TREE)
MARKER = TREE / shared.JAIL_MARKER
SLURM_SECRETS = Path(shared.SECRETS_SLURM)
LDAP_SECRETS = Path(shared.SECRETS_LDAP)
"""Folder of the LDAP pod with the password that it binds with, and the CA of the LDAP servers."""
LDAP_KEYS = VOLUME / "directory/keys"
"""Folder with a file for each user who has SSH keys in LDAP. Root owns it, outside of every root."""
SSH_LDAP_KEYS = Path("/run/directory-keys")
"""LDAP_KEYS on a login node, below folders that only root may write, as sshd requires."""
SSH_SECRETS = Path(shared.SECRETS_SSH)
REST_TLS = Path(shared.SECRETS_REST_TLS)
REST_SOCKET = Path(shared.REST_RUN, "slurmrestd.sock")
SPOOL = Path(shared.SPOOL_DIR)
SLURM_RUN = Path(shared.SLURM_RUN)
FETCHED = Path(shared.FETCHED)
DOOR = Path(shared.DOOR)
SLURMD = Path(shared.SLURMD)
SLURMD_START = Path("/usr/libexec/slurm-node/slurmd")
"""Program that fetches the configuration and becomes slurmd (native/programs/slurmd_start.c)."""
SSHD_GUARD = Path("/usr/libexec/slurm-node/sshd_guard.so")
"""Library that sshd preloads (native/login/sshd_lines.c and sshd_peers.c)."""
CONTROLLER_RUN = Path(shared.CONTROLLER_RUN)
ETC_SLURM = Path(shared.ETC_SLURM)
ETC_ROOTS = Path(shared.ETC_ROOTS)
STATE = Path(shared.STATE_DIR)
ETC_ACCOUNTING = Path(shared.ETC_ACCOUNTING)
ETC_SCRIPTS = Path(shared.ETC_SCRIPTS)
ETC_TASK_SCRIPTS = Path(shared.ETC_TASK_SCRIPTS)
JAIL_TASK_SCRIPTS = Path(shared.JAIL_TASK_SCRIPTS)
ACCOUNTING_RUN = Path(shared.ACCOUNTING_RUN)
DATABASE_SECRETS = Path(shared.SECRETS_DATABASE)
OWN_RUN = Path(shared.NODE_RUN)
SLURM_KEY = OWN_RUN / names.SLURM_KEY
NODE_STATE = OWN_RUN / "state"
STATE_UNTIL = OWN_RUN / "state-until"
"""File with the uptime in seconds until which NODE_STATE counts."""
JAIL_BROKEN = Path(shared.JAIL_BROKEN)
PLUGIN_REFUSED = Path(shared.PLUGIN_REFUSED)
JOBS = Path(shared.JOBS)
PROLOGS = OWN_RUN / "prologs"
"""Folder with a file for each job whose prolog ran here, named by the job's number, with its SLUID."""
JAIL_WORKED = Path(shared.JAIL_WORKED)
PROLOG_REFUSED = Path(shared.PROLOG_REFUSED)
SITE_HEALTH = Path(shared.SITE_HEALTH)
SSH_BANNER = OWN_RUN / "ssh-banner"
"""Banner of sshd with the reason why logins are refused. It exists only while jail probes fail."""
LOGIN_LIMITS = Path(shared.LOGIN_LIMITS)
PROFILE_LIMITS = Path(shared.PROFILE_LIMITS)
CONTAINER_FOLDERS = Path(shared.CONTAINER_FOLDERS).parent
"""Slurmstepd makes a folder .slurm-UID/oci-job… here before it enters the jail, where the step gets another one."""
SSH_KEYS = Path("/run/sshd-keys")
SSHD_RUN = Path("/run/sshd")
TOOLS = Path(shared.TOOLS)


def root_of(volume: Path, revision: str) -> Path:
    """Returns the complete root of a revision."""
    return volume / "roots" / revision


def manifest_of(volume: Path, revision: str) -> Path:
    """Returns the marker that is written once a root is complete; it lies outside every root."""
    return volume / "manifests" / f"{revision}.json"


def facts_of(volume: Path, revision: str) -> Path:
    """Returns the folder with populate's notes about a root: its files, packages, and later its changes."""
    return volume / "manifests" / revision


def persistent_of(volume: Path, path: str) -> Path:
    """Returns the folder of a persistent path, which every root shows."""
    return volume / "persistent" / path.lstrip("/")
