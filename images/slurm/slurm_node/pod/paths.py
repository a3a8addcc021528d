"""Where things are in the slurm image's pods."""

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
"""What stands in for each library of NVIDIA's driver on a node without one."""
DRIVER = Path("/run/node/driver")
"""This node's driver, as the jail's processes see it."""
VOLUME = Path(shared.JAIL_VOLUME)
TREE = Path(shared.JAIL_TREE)
MARKER = TREE / "run/.jail-ready"
SLURM_SECRETS = Path(shared.SECRETS_SLURM)
LDAP_SECRETS = Path(shared.SECRETS_LDAP)
"""Where the directory's pod has the password that it binds with, and the CA of the directory's servers."""
LDAP_KEYS = VOLUME / "directory/keys"
"""A file for each user whose SSH keys are in the directory; root's, outside of every root."""
SSH_LDAP_KEYS = Path("/run/directory-keys")
"""The same on a login node, below folders that nobody else may write: sshd insists on it."""
SSH_SECRETS = Path(shared.SECRETS_SSH)
REST_TLS = Path(shared.SECRETS_REST_TLS)
REST_SOCKET = Path(shared.REST_RUN, "slurmrestd.sock")
SPOOL = Path(shared.SPOOL_DIR)
SLURM_RUN = Path("/run/slurm")
FETCHED = SLURM_RUN / "conf"
"""The configuration that the node has fetched, a folder of root's; Slurm's commands look for it here."""
DOOR = SLURM_RUN / "door"
"""What jobs and logins see in the place of SLURM_RUN."""
SLURMD = PREFIX / "sbin/slurmd"
SLURMD_START = Path("/usr/libexec/slurm-node/slurmd")
"""Fetches the configuration and becomes slurmd (native/programs/slurmd_start.c)."""
CONTROLLER_RUN = Path(shared.CONTROLLER_RUN)
ETC_SLURM = Path(shared.ETC_SLURM)
ETC_ROOTS = Path(shared.ETC_ROOTS)
STATE = Path(shared.STATE_DIR)
ETC_ACCOUNTING = Path(shared.ETC_ACCOUNTING)
ACCOUNTING_RUN = Path(shared.ACCOUNTING_RUN)
DATABASE_SECRETS = Path(shared.SECRETS_DATABASE)
OWN_RUN = Path(shared.NODE_RUN)
SLURM_KEY = OWN_RUN / names.SLURM_KEY
NODE_STATE = OWN_RUN / "state"
JAIL_BROKEN = Path(shared.JAIL_BROKEN)
PLUGIN_REFUSED = OWN_RUN / "plugin-refused"
"""Why Slurm would not load the jail plugin; there only while it would not."""
JOBS = OWN_RUN / "jobs"
"""A file for each job that has namespaces here, named by its number."""
PROLOGS = OWN_RUN / "prologs"
"""A file for each job whose prolog ran here, named by its number, with its SLUID."""
JAIL_WORKED = Path(shared.JAIL_WORKED)
PROLOG_REFUSED = OWN_RUN / "prolog-refused"
"""Why the prolog, or the plugin, refused a job; the entry takes it, to know Slurm's drain for it (drains.py)."""
SSH_BANNER = OWN_RUN / "ssh-banner"
"""Why a login would be refused now, which sshd says first to everybody; there only while jail probes fail."""
LOGIN_LIMITS = OWN_RUN / "login-limits"
"""What one user may use of a login node, for pam_jail.so."""
PROFILE_LIMITS = OWN_RUN / "profile-limits"
"""What a user's start-up files may use before his job exists, for su."""
CONTAINER_FOLDERS = Path(shared.CONTAINER_FOLDERS).parent
"""slurmstepd makes a folder .slurm-UID/oci-job… here before it enters the jail, where the step has another."""
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
    """Returns the folder with what populate noted of a root: its files, packages, and later what changed in it."""
    return volume / "manifests" / revision


def persistent_of(volume: Path, path: str) -> Path:
    """Returns the folder that stands for a persistent path in every root."""
    return volume / "persistent" / path.lstrip("/")
