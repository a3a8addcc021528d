"""Where things are in the slurm image's pods; components/names.py and a test hold the same literals."""

from pathlib import Path

PREFIX = Path("/opt/slurm")
PLUGIN = PREFIX / "lib/slurm-wlm/spank_jail.so"
STOCK_PLUGIN = PREFIX / "lib/slurm-wlm/auth_slurm.so"
"""A plugin that came with Slurm itself, built for the same version."""
JAIL_PROBE = PREFIX / "libexec/jail_probe"
SACK_DOOR = PREFIX / "libexec/sack_door"
NO_DRIVER = PREFIX / "driver/no_driver.so"
"""What stands in for each library of NVIDIA's driver on a node without one."""
DRIVER = Path("/run/node/driver")
"""This node's driver, as the jail's processes see it."""
VOLUME = Path("/mnt/jail")
TREE = Path("/run/jail")
MARKER = TREE / "run/.jail-ready"
SLURM_SECRETS = Path("/run/secrets/slurm")
DIRECTORY_SECRETS = Path("/run/secrets/directory")
"""Where the directory's pod has the password that it binds with, and the CA of the directory's servers."""
DIRECTORY_KEYS = VOLUME / "directory/keys"
"""A file for each user whose SSH keys are in the directory; root's, outside of every root."""
SSH_DIRECTORY_KEYS = Path("/run/directory-keys")
"""The same on a login node, below folders that nobody else may write: sshd insists on it."""
SSH_SECRETS = Path("/run/secrets/ssh")
REST_TLS = Path("/run/secrets/rest-tls")
REST_SOCKET = Path("/run/slurm-rest/slurmrestd.sock")
SPOOL = Path("/var/spool/slurmd")
SLURM_RUN = Path("/run/slurm")
FETCHED = SLURM_RUN / "conf"
"""The configuration that the node has fetched, a folder of root's; Slurm's commands look for it here."""
DOOR = SLURM_RUN / "door"
"""What jobs and logins see in the place of SLURM_RUN."""
SLURMD = PREFIX / "sbin/slurmd"
SLURMD_START = Path("/usr/libexec/slurm-node/slurmd")
"""Fetches the configuration and becomes slurmd (native/slurmd_start.c)."""
CONTROLLER_RUN = Path("/run/slurmctld")
ETC_SLURM = Path("/etc/slurm")
ETC_ROOTS = Path("/etc/slurm-roots")
"""On a login node: a file for each root that the stack's configuration names, and for no other."""
STATE = Path("/var/spool/slurmctld")
ETC_ACCOUNTING = Path("/etc/slurm-accounting")
ACCOUNTING_RUN = Path("/run/slurmdbd")
DATABASE_SECRETS = Path("/run/secrets/database")
OWN_RUN = Path("/run/slurm-node")
"""The pod's own keys and state: not in the jail's view."""
SLURM_KEY = OWN_RUN / "slurm.key"
NODE_STATE = OWN_RUN / "state"
JAIL_BROKEN = OWN_RUN / "broken"
"""Why steps must not start now; there only while jail probes fail."""
PLUGIN_REFUSED = OWN_RUN / "plugin-refused"
"""Why Slurm would not load the jail plugin; there only while it would not."""
JOBS = OWN_RUN / "jobs"
"""A file for each job that has namespaces here, named by its number."""
PROLOGS = OWN_RUN / "prologs"
"""A file for each job whose prolog ran here, named by its number, with its SLUID."""
JAIL_WORKED = OWN_RUN / "jail-worked"
"""Touched after each probe that worked."""
PROLOG_REFUSED = OWN_RUN / "prolog-refused"
"""Why the prolog, or the plugin, refused a job; the entry takes it, to know Slurm's drain for it (drains.py)."""
SSH_BANNER = OWN_RUN / "ssh-banner"
"""Why a login would be refused now, which sshd says first to everybody; there only while jail probes fail."""
LOGIN_LIMITS = OWN_RUN / "login-limits"
"""What one user may use of a login node, for pam_jail.so."""
PROFILE_LIMITS = OWN_RUN / "profile-limits"
"""What a user's start-up files may use before his job exists, for su."""
CONTAINER_FOLDERS = Path("/tmp")  # noqa: S108 - the pod's own, which no user sees
"""slurmstepd makes a folder .slurm-UID/oci-job… here before it enters the jail, where the step has another."""
SSH_KEYS = Path("/run/sshd-keys")
SSHD_RUN = Path("/run/sshd")
TOOLS = Path("/run/slurm-tools")


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
