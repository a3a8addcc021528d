"""Every name, port and id that two parts of a cluster must agree on.

One Slurm cluster lives in a namespace, so most names are fixed.
"""

from typing import Final

PROJECT: Final = "pulumi-slurm"

API_GROUP: Final = "pulumi-slurm.dev"
CRD_VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{API_GROUP}/{CRD_VERSION}"
SLURM_CLUSTERS: Final = "slurmclusters"
NODE_SETS: Final = "nodesets"
FIELD_MANAGER: Final = "pulumi-slurm"
"""Field manager of the program, also for what the operator restores: a field goes when the program drops it."""
OPERATOR_FIELD_MANAGER: Final = "pulumi-slurm-operator"
REST_API: Final = "/slurm/v0.0.45"
REST_DATABASE_API: Final = "/slurmdb/v0.0.45"

NAMESPACE: Final = "slurm"
"""The namespace, unless cluster.namespace names another."""

# Objects, all in the cluster's namespace.
CONTROLLER: Final = "slurm-controller"
CONTROLLER_STATE: Final = "slurm-controller-state"
REST: Final = "slurm-rest"
CONFIG_DRY_RUN: Final = "slurm-rehearsal"
ACCOUNTING: Final = "slurm-accounting"
DATABASE: Final = "slurm-database"
DATABASE_CREDENTIALS: Final = "slurm-database-credentials"
DATABASE_PASSWORD: Final = "password"  # noqa: S105 - a key, not its value
"""Key of the password in the Secret that the program makes. In pods, it is the file name of database passwords."""
WORKERS: Final = "slurm-workers"
LDAP: Final = "slurm-directory"
LDAP_PASSWORD: Final = "password"  # noqa: S105 - a file's name, not its content
LOGIN: Final = "slurm-login"
LOGINS: Final = "slurm-logins"
LOGIN_SETS: Final = "slurm-set-logins"
"""Headless Service of the login nodes of all further sets."""
ROOTS: Final = "slurm-roots"
OPERATOR: Final = "slurm-operator"
LEASE: Final = OPERATOR
METRICS: Final = "slurm-metrics"
SELF_SIGNED: Final = "slurm-self-signed"
CA: Final = "slurm-ca"
REST_TLS: Final = "slurm-rest-tls"
DATABASE_TLS: Final = "slurm-database-tls"
CONFIG_WANTED: Final = "slurm-config-wanted"
CONFIG_ACTIVE: Final = "slurm-config"
NODE_SCRIPTS: Final = "slurm-node-scripts"
TASK_SCRIPTS: Final = "slurm-task-scripts"
CONTROLLER_SCRIPTS: Final = "slurm-controller-scripts"
KEYS: Final = "slurm-keys"
SSH_HOST_KEYS: Final = "slurm-ssh-host-keys"
LEDGER: Final = "slurm-ledger"
LEDGER_PAYLOADS: Final = "slurm-ledger-payloads"
JAIL: Final = "slurm-jail"
RESERVED_PREFIX: Final = "slurm-"
"""No node set's name may start with it: its StatefulSet could clash with the cluster's own objects."""
POD_CONDITION: Final = f"{API_GROUP}/SlurmNode"
"""Type of the condition of a worker's pod that says Slurm's state of its node."""
POD_HEALTH: Final = f"{API_GROUP}/Healthy"
"""Type of the condition that says the verdict of the node's own checks."""
RESERVATION_PREFIX: Final = f"{PROJECT}-update-"
"""The beginning of a reservation's name for the updates of a node set, whose name follows."""
LONG_CHECK_PREFIX: Final = f"{PROJECT}-check-"
"""The beginning of the name of a long check's job; the check's name follows."""
RETRY_PREFIX: Final = f"{PROJECT}-retry-"
"""The beginning of a reservation's name in which long checks try a drained node again; the node's name follows."""
RETRY_USER: Final = "65534"
"""The user of such a reservation: LONG_CHECK_USER_ID as text, since slurmctld looks up no name but root's."""
RETRY_FLAGS: Final = ("MAINT", "FLEX")
"""FLEX: a job in the reservation may have nodes outside of it, as partners of the node."""
RESERVATION_FLAGS: Final = ("MAINT", "IGNORE_JOBS")

# Keys inside the objects above.
SLURM_CONF: Final = "slurm.conf"
CGROUP_CONF: Final = "cgroup.conf"
GRES_CONF: Final = "gres.conf"
SLURMDBD_CONF: Final = "slurmdbd.conf"
PLUGSTACK_CONF: Final = "plugstack.conf"
OCI_CONF: Final = "oci.conf"
TOPOLOGY_YAML: Final = "topology.yaml"
TOPOLOGIES_MARK: Final = "# From slurm.topologies"
"""First words of a topology.yaml that the program wrote."""
UNLABELED: Final = "unlabeled"
"""`SWITCH-unlabeled` is the leaf switch of nodes whose Kubernetes nodes lack a label for their place."""
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
"""Item of SlurmctldParameters with a hash of the rendered configuration."""

# Labels, annotations and alike.
APPLICATION: Final = "slurm"
"""Value of LABEL_NAME."""
LABEL_NAME: Final = "app.kubernetes.io/name"
LABEL_INSTANCE: Final = "app.kubernetes.io/instance"
LABEL_COMPONENT: Final = "app.kubernetes.io/component"
LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
LABEL_REVISION: Final = "controller-revision-hash"
"""Kubernetes' own label on the pods of a StatefulSet."""
LABEL_EVICTABLE: Final = f"{API_GROUP}/evictable"
"""Label that takes a pod out of the workers' PodDisruptionBudget."""
LOGIN_SET: Final = "login-set"
"""Value of LABEL_COMPONENT for login nodes of further sets; those of `login` itself have `login`."""
LABEL_LOGIN_SET: Final = f"{API_GROUP}/login-set"
LABEL_NODE_SET: Final = f"{API_GROUP}/node-set"
ANNOTATION_STACK: Final = f"{API_GROUP}/stack"
ANNOTATION_REPLICAS: Final = f"{API_GROUP}/declared-replicas"
"""On a NodeSet: the number of nodes that the program declares."""
ANNOTATION_AT_START: Final = f"{API_GROUP}/taken-at-start"
ANNOTATION_CONFIG: Final = f"{API_GROUP}/configuration"
"""Set on slurmctld's pod: after a change of a pod, kubelet updates its ConfigMaps at once, not within a minute."""
ANNOTATION_FORCE: Final = f"{API_GROUP}/force-delete"
ANNOTATION_APPROVE: Final = f"{API_GROUP}/approve"
CHECK_REQUEST_PREFIX: Final = f"check.{API_GROUP}/"
"""The beginning of an annotation of a SlurmCluster that asks for a long check, whose name follows."""
ANNOTATION_REST: Final = f"{API_GROUP}/rest-url"
"""Set with the finalizer: URL to ask about jobs of a NodeSet after its SlurmCluster was deleted."""
FINALIZER: Final = f"{API_GROUP}/jobs"
UNFIT_TAINT: Final = f"{API_GROUP}/unfit"
"""Taint and annotation of a Kubernetes node that the operator took a worker from; the annotation says why."""

TREE_WIDTH: Final = 65533
"""Slurm's TreeWidth: slurmctld and commands speak to each node themselves, and no slurmd passes a message on."""

# Ports.
SLURMCTLD_PORT: Final = 6817
SLURMD_PORT: Final = 6818
SLURMDBD_PORT: Final = 6819
SLURMRESTD_PORT: Final = 6820
CONFIG_DRY_RUN_PORT: Final = 6821
DATABASE_PORT: Final = 3306
SSH_PORT: Final = 22
OPERATOR_HEALTH_PORT: Final = 8080
CONFIG_DRY_RUN_URL: Final = f"http://{CONFIG_DRY_RUN}:{CONFIG_DRY_RUN_PORT}"
"""Where the config dry run answers the operator of the same namespace."""
SRUN_PORT_FIRST: Final = 60001
SRUN_PORT_LAST: Final = 63000

# Users, in the slurm image and in every root of the jail.
SLURM_USER: Final = "slurm"
RESERVATION_USER: Final = "root"
"""The user of our reservations: nobody can use them, since Slurm starts no job of root's (DisableRootJobs).

With accounting.enforce it must be somebody with an association: slurmdbd gives root one with each cluster.
"""
SLURM_UID: Final = 64030
SLURMREST_UID: Final = 64031
DATABASE_UID: Final = 64032
DATABASE_OS_USER: Final = "mariadb"
OPERATOR_UID: Final = 65532
LONG_CHECK_USER_ID: Final = 65534
"""User and group of long checks' jobs: nobody, who has no right in any root of the jail. No user can be this one."""
FIRST_USER_ID: Final = 1000
LAST_USER_ID: Final = 59999
"""Debian's range for users (adduser.conf)."""
FIRST_LDAP_ID: Final = 65_536
LAST_LDAP_ID: Final = 2**32 - 2
"""Ids that no system account has (Debian policy, 9.2.2). LDAP directories often give them to users."""
USER_NAME: Final = "[a-z_][a-z0-9_-]{0,30}"
"""A user's name in the jail, as a regular expression."""
