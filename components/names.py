"""Every name, port and id that two parts of a cluster must agree on.

One Slurm cluster lives in a namespace, so most names are fixed. The operator and the programs in the images may not
import this module; they repeat a literal, and a test compares the two.
"""

from typing import Final

PROJECT: Final = "pulumi-slurm"

API_GROUP: Final = "pulumi-slurm.dev"
API_VERSION: Final = f"{API_GROUP}/v1alpha1"
FIELD_MANAGER: Final = "pulumi-slurm"

# Objects, all in the cluster's namespace.
CONTROLLER: Final = "slurm-controller"
CONTROLLER_STATE: Final = "slurm-controller-state"
REST: Final = "slurm-rest"
REHEARSAL: Final = "slurm-rehearsal"
ACCOUNTING: Final = "slurm-accounting"
DATABASE: Final = "slurm-database"
DATABASE_CREDENTIALS: Final = "slurm-database-credentials"
DATABASE_PASSWORD: Final = "password"  # noqa: S105 - a key, not its value
"""Key of the password in the Secret that the program makes, and file name of every database password in a pod."""
WORKERS: Final = "slurm-workers"
DIRECTORY: Final = "slurm-directory"
DIRECTORY_PASSWORD: Final = "password"  # noqa: S105 - a file's name, not its content
LOGIN: Final = "slurm-login"
LOGINS: Final = "slurm-logins"
ROOTS: Final = "slurm-roots"
OPERATOR: Final = "slurm-operator"
METRICS: Final = "slurm-metrics"
SELF_SIGNED: Final = "slurm-self-signed"
CA: Final = "slurm-ca"
REST_TLS: Final = "slurm-rest-tls"
DATABASE_TLS: Final = "slurm-database-tls"
CONFIG_WANTED: Final = "slurm-config-wanted"
CONFIG_ACTIVE: Final = "slurm-config"
KEYS: Final = "slurm-keys"
SSH_HOST_KEYS: Final = "slurm-ssh-host-keys"
LEDGER: Final = "slurm-ledger"
LEDGER_PAYLOADS: Final = "slurm-ledger-payloads"
JAIL: Final = "slurm-jail"
RESERVED_PREFIX: Final = "slurm-"
"""Node sets may not start with it: their StatefulSets would meet the cluster's own objects."""

# Keys inside the objects above.
SLURM_CONF: Final = "slurm.conf"
CGROUP_CONF: Final = "cgroup.conf"
GRES_CONF: Final = "gres.conf"
SLURMDBD_CONF: Final = "slurmdbd.conf"
PLUGSTACK_CONF: Final = "plugstack.conf"
OCI_CONF: Final = "oci.conf"
SLURM_KEY: Final = "slurm.key"
JWT_KEY: Final = "jwt.key"
SSH_HOST_KEY_FILES: Final = (
    "ssh_host_ed25519_key",
    "ssh_host_ed25519_key.pub",
    "ssh_host_rsa_key",
    "ssh_host_rsa_key.pub",
)
TLS_CERTIFICATE: Final = "tls.crt"
TLS_KEY: Final = "tls.key"
TLS_AUTHORITY: Final = "ca.crt"
LEDGER_DATA: Final = "ledger.json.gz"
LEDGER_REVISION: Final = "revision"

CONFIG_MARK: Final = "pulumi_slurm"
"""Item of SlurmctldParameters that tells one rendered configuration from another."""

# Labels.
LABEL_NAME: Final = "app.kubernetes.io/name"
LABEL_INSTANCE: Final = "app.kubernetes.io/instance"
LABEL_COMPONENT: Final = "app.kubernetes.io/component"
LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
LABEL_EVICTABLE: Final = f"{API_GROUP}/evictable"
LABEL_NODE_SET: Final = f"{API_GROUP}/node-set"
ANNOTATION_STACK: Final = f"{API_GROUP}/stack"
ANNOTATION_REPLICAS: Final = f"{API_GROUP}/declared-replicas"
"""On a NodeSet: the number of nodes that the program declares."""
ANNOTATION_AT_START: Final = f"{API_GROUP}/taken-at-start"

# Ports.
SLURMCTLD_PORT: Final = 6817
SLURMD_PORT: Final = 6818
SLURMDBD_PORT: Final = 6819
SLURMRESTD_PORT: Final = 6820
REHEARSAL_PORT: Final = 6821
DATABASE_PORT: Final = 3306
SSH_PORT: Final = 22
OPERATOR_HEALTH_PORT: Final = 8080
SRUN_PORT_FIRST: Final = 60001
SRUN_PORT_LAST: Final = 63000

# Ids in the slurm image and in every root of the jail.
SLURM_UID: Final = 64030
SLURMREST_UID: Final = 64031
DATABASE_UID: Final = 64032
OPERATOR_UID: Final = 65532

# Paths in the slurm image.
ETC_SLURM: Final = "/etc/slurm"
ETC_ROOTS: Final = "/etc/slurm-roots"
SECRETS_SLURM: Final = "/run/secrets/slurm"
SECRETS_DIRECTORY: Final = "/run/secrets/directory"
SECRETS_SSH: Final = "/run/secrets/ssh"
SECRETS_REST_TLS: Final = "/run/secrets/rest-tls"
SECRETS_DATABASE_TLS: Final = "/run/secrets/database-tls"
SECRETS_DATABASE_AUTHORITY: Final = "/run/secrets/database-authority"
SECRETS_REST_AUTHORITY: Final = "/run/secrets/rest-authority"
REST_RUN: Final = "/run/slurm-rest"
STATE_DIR: Final = "/var/spool/slurmctld"
SPOOL_DIR: Final = "/var/spool/slurmd"
CONTROLLER_RUN: Final = "/run/slurmctld"
ETC_ACCOUNTING: Final = "/etc/slurm-accounting"
ACCOUNTING_RUN: Final = "/run/slurmdbd"
SECRETS_DATABASE: Final = "/run/secrets/database"
DATABASE_VOLUME: Final = "/var/lib/slurm-database"
DATABASE_RUN: Final = "/run/mariadb"
DATABASE_OS_USER: Final = "mariadb"
JAIL_VOLUME: Final = "/mnt/jail"
JAIL_TREE: Final = "/run/jail"
SUBMOUNTS: Final = "/run/submounts"
"""Below /run, which is detached on the way into the jail."""
TOOLS: Final = "/run/slurm-tools"
"""Below /run, of which nothing is taken from a jail image."""
PLUGIN_DIR: Final = "/opt/slurm/lib/slurm-wlm"
MPI_PLUGIN_DIRS: Final = {"pmi2": "/opt/slurm/lib/slurm-pmi2"}
CONTAINER_STEP: Final = "/opt/slurm/libexec/container_step"
CONTAINER_FOLDERS: Final = "/tmp/.slurm-"  # noqa: S108 - a job's own, one for each user
SPANK_PLUGIN: Final = f"{PLUGIN_DIR}/spank_jail.so"
HEALTH_PROGRAM: Final = "/usr/sbin/node-health-program"
HEALTH_PROLOG: Final = "/usr/sbin/node-health-prolog"
HEALTH_EPILOG: Final = "/usr/sbin/node-health-epilog"


def slurm_node_set(node_set: str) -> str:
    """The Slurm-side NodeSet name of a node set.

    The underscore keeps it apart from every node name (a pod name is a DNS label): slurmctld refuses to start when a
    NodeSet has the name of a node.
    """
    return f"ns_{node_set.replace('-', '_')}"


def jail_job(revision: str) -> str:
    """The name of the Job that populates one root of the jail."""
    return f"{JAIL}-{revision}"
