"""Paths in the pods and in the jail, as text."""

from typing import Final

from contract import names

PREFIX: Final = "/opt/slurm"
PLUGIN_DIR: Final = f"{PREFIX}/lib/slurm-wlm"
MPI_PLUGIN_DIRS: Final = {"pmi2": f"{PREFIX}/lib/slurm-pmi2"}
SPANK_PLUGIN: Final = f"{PLUGIN_DIR}/spank_jail.so"
CONTAINER_STEP: Final = f"{PREFIX}/libexec/container_step"
PAUSE: Final = f"{PREFIX}/libexec/pause"
HEALTH_PROGRAM: Final = "/usr/sbin/node-health-program"
HEALTH_PROLOG: Final = "/usr/sbin/node-health-prolog"
HEALTH_EPILOG: Final = "/usr/sbin/node-health-epilog"

ETC_SLURM: Final = "/etc/slurm"
ETC_ROOTS: Final = "/etc/slurm-roots"
"""Folder of a login node with one file for each root that the stack's configuration names."""
ETC_ACCOUNTING: Final = "/etc/slurm-accounting"

SECRETS_SLURM: Final = "/run/secrets/slurm"
SECRETS_LDAP: Final = "/run/secrets/directory"
SECRETS_SSH: Final = "/run/secrets/ssh"
SECRETS_REST_TLS: Final = "/run/secrets/rest-tls"
SECRETS_REST_AUTHORITY: Final = "/run/secrets/rest-authority"
SECRETS_DATABASE: Final = "/run/secrets/database"
SECRETS_DATABASE_TLS: Final = "/run/secrets/database-tls"
SECRETS_DATABASE_AUTHORITY: Final = "/run/secrets/database-authority"
JWT_KEY_FILE: Final = f"{SECRETS_SLURM}/{names.JWT_KEY}"
REST_AUTHORITY_FILE: Final = f"{SECRETS_REST_AUTHORITY}/{names.TLS_AUTHORITY}"
DATABASE_PASSWORD_FILE: Final = f"{SECRETS_DATABASE}/{names.DATABASE_PASSWORD}"

STATE_DIR: Final = "/var/spool/slurmctld"
SPOOL_DIR: Final = "/var/spool/slurmd"
DATABASE_VOLUME: Final = "/var/lib/slurm-database"
JAIL_VOLUME: Final = "/mnt/jail"
JAIL_TREE: Final = "/run/jail"
CONTAINER_FOLDERS: Final = "/tmp/.slurm-"  # noqa: S108 - a job's own, one for each user

# Below /run, which is detached on the way into the jail and never comes from a jail image.
CONTROLLER_RUN: Final = "/run/slurmctld"
ACCOUNTING_RUN: Final = "/run/slurmdbd"
REST_RUN: Final = "/run/slurm-rest"
DATABASE_RUN: Final = "/run/mariadb"
SUBMOUNTS: Final = "/run/submounts"
TOOLS: Final = "/run/slurm-tools"
NODE_RUN: Final = "/run/slurm-node"
"""The pod's own keys and state, which the jail does not show."""
JAIL_BROKEN: Final = f"{NODE_RUN}/broken"
"""File with the reason why steps must not start. It exists only while jail probes fail."""
JAIL_WORKED: Final = f"{NODE_RUN}/jail-worked"
"""File that is touched after each successful probe."""
