"""Names that the operator shares with the Pulumi program, which cannot be imported here; a test compares them."""

GROUP = "pulumi-slurm.dev"
VERSION = "v1alpha1"
SLURM_CLUSTERS = "slurmclusters"
NODE_SETS = "nodesets"

NAME_LABEL = "app.kubernetes.io/name"
INSTANCE_LABEL = "app.kubernetes.io/instance"
COMPONENT_LABEL = "app.kubernetes.io/component"
NODE_SET_LABEL = "pulumi-slurm.dev/node-set"
APPLICATION = "slurm"

WANTED_CONFIG = "slurm-config-wanted"
ACTIVE_CONFIG = "slurm-config"
SLURM_CONF = "slurm.conf"
CONFIG_MARK = "pulumi_slurm"
CONFIG_ANNOTATION = "pulumi-slurm.dev/configuration"
"""Set on slurmctld's pod: a change of a pod makes kubelet look at its ConfigMaps at once, not within a minute."""
LEDGER_SECRET = "slurm-ledger"  # noqa: S105 - the name of an object
LEDGER_REVISION_KEY = "revision"
LEDGER_DATA_KEY = "ledger.json.gz"
LEDGER_PAYLOADS = "slurm-ledger-payloads"
OPERATOR = LEASE = "slurm-operator"
FIELD_MANAGER = "pulumi-slurm-operator"
DECLARING_MANAGER = "pulumi-slurm"
"""The manager of the program's own fields: what is healed under it goes when the program drops it."""

FINALIZER = "pulumi-slurm.dev/jobs"
FORCE_ANNOTATION = "pulumi-slurm.dev/force-delete"
REST_ANNOTATION = "pulumi-slurm.dev/rest-url"
"""Set with the finalizer: where to ask about the jobs of a NodeSet whose SlurmCluster was deleted before it."""

JWT_KEY_FILE = "/run/secrets/slurm/jwt.key"
REST_AUTHORITY_FILE = "/run/secrets/rest-authority/ca.crt"
SLURM_USER = "slurm"
REST_API = "/slurm/v0.0.45"
HEALTH_PORT = 8080

SCALE_IN_REASON = "pulumi-slurm:scale-in"
"""Every drain reason of ours starts with `pulumi-slurm:`; only a drain that we set is ever lifted by us."""
