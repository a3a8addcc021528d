"""Conditions that the operator writes on its custom resources. Other programs wait for them, or show them."""

from enum import StrEnum
from typing import Final


class ConditionType(StrEnum):
    """The type of a condition of a SlurmCluster or NodeSet; docs/operator.md says what each means."""

    AVAILABLE = "Available"
    PROGRESSING = "Progressing"
    DEGRADED = "Degraded"
    DRAINED_BY_PEOPLE = "DrainedByPeople"

    # Of a SlurmCluster alone.
    HEALING = "Healing"
    NODES_WATCHED = "NodesWatched"

    # Of a NodeSet alone.
    SCALED_OUTSIDE_PULUMI = "ScaledOutsidePulumi"

    # For tools that read kstatus.
    READY = "Ready"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"


class Reason(StrEnum):
    """A reason of a condition, an Event or a metric, as programs read it; the message explains it to people."""

    # Of a node set.
    CLUSTER_MISSING = "ClusterMissing"
    STATEFUL_SET_MISSING = "StatefulSetMissing"
    STATEFUL_SET_SHARED = "StatefulSetShared"
    SCALING = "Scaling"
    WAITING_FOR_JOBS = "WaitingForJobs"
    NODES_KEPT = "NodesKept"
    NODES_NOT_READY = "NodesNotReady"
    NODES_STARTING = "NodesStarting"
    NODES_DOWN = "NodesDown"
    NODES_DRAINED = "NodesDrained"
    SAME_CHECK_ON_MANY_NODES = "SameCheckOnManyNodes"
    NODES_UNPLACED = "NodesUnplaced"
    NODES_UNTESTED = "NodesUntested"
    DRAINED_BY_PEOPLE = "DrainedByPeople"
    NOBODY_DRAINED = "NobodyDrained"
    NO_USABLE_NODES = "NoUsableNodes"
    RECORD_KEPT = "RecordKept"

    # Of its updates.
    UPDATING = "Updating"
    UPDATE_HELD = "UpdateHeld"
    UPDATE_PAUSED = "UpdatePaused"
    UPDATE_WAITS_FOR_JOBS = "UpdateWaitsForJobs"
    UPDATE_WAITS_FOR_WINDOW = "UpdateWaitsForWindow"
    UPDATE_WINDOW_PAST = "UpdateWindowPast"
    UPDATE_PASSES_BY = "UpdatePassesBy"
    RESERVATION_OF_ANOTHER = "ReservationOfAnother"

    # Of nodes that `scontrol reboot` was asked for.
    NODES_REBOOT = "NodesReboot"

    # Of its repairs.
    AWAITS_APPROVAL = "AwaitsApproval"
    AWAITS_FENCING = "AwaitsFencing"
    BREAKER_OPEN = "BreakerOpen"
    BUDGET_SPENT = "BudgetSpent"
    GAVE_UP = "GaveUp"
    REPAIR_WAITS = "RepairWaits"
    WOULD_DRAIN = "WouldDrain"
    WOULD_REPLACE = "WouldReplace"
    WOULD_RESTART = "WouldRestart"

    # Of long checks.
    LONG_CHECK_FAILED = "LongCheckFailed"
    LONG_CHECK_UNKNOWN = "LongCheckUnknown"
    LONG_CHECK_REQUESTED = "LongCheckRequested"
    LONG_CHECK_REQUEST_REFUSED = "LongCheckRequestRefused"

    # Of its deletion.
    DELETION_HELD = "DeletionHeld"
    DRAINING = "Draining"
    PODS_ENDING = "PodsEnding"
    PODS_WITHOUT_STATEFUL_SET = "PodsWithoutStatefulSet"
    RECORDS_LEFT = "RecordsLeft"

    # Of the author of its number of nodes.
    AS_DECLARED = "AsDeclared"
    NOT_DECLARED = "NotDeclared"
    REPLICAS_DIFFER = "ReplicasDiffer"

    # Of the cluster and its daemons.
    ANOTHER_CLUSTER_IN_NAMESPACE = "AnotherClusterInNamespace"
    LEDGER_MISMATCH = "LedgerMismatch"
    CONFIGURATION_MISSING = "ConfigurationMissing"
    CONTROLLER_NOT_READY = "ControllerNotReady"
    CONTROLLER_UPDATING = "ControllerUpdating"
    DAEMON_LOST = "DaemonLost"
    LOGIN_NOT_READY = "LoginNotReady"
    REST_NOT_READY = "RestNotReady"
    POD_NOT_STARTING = "PodNotStarting"
    PODS_REFUSED = "PodsRefused"
    POPULATE_FAILED = "PopulateFailed"
    ACCOUNTING_MISSING = "AccountingMissing"
    ACCOUNTING_NOT_READY = "AccountingNotReady"
    ACCOUNTING_STARTING = "AccountingStarting"

    # Of QOS, accounts and users in its database.
    ACCOUNTS_CHANGING = "AccountsChanging"
    ACCOUNTS_KEPT = "AccountsKept"
    ACCOUNTS_NOT_SET = "AccountsNotSet"

    # Of the configuration.
    CONFIG_DRY_RUN_PENDING = "ConfigDryRunPending"
    CONFIGURATION_HELD = "ConfigurationHeld"
    CONFIGURATION_REFUSED = "ConfigurationRefused"
    """slurmctld would not start with the desired files, or would hold jobs for ever. Waiting does not help."""
    PARTITIONS_CLOSING = "PartitionsClosing"
    NODES_OUTDATED = "NodesOutdated"
    RECONFIGURING = "Reconfiguring"
    RESTARTING = "Restarting"

    # Of declared objects.
    CLAIM_DELETED = "ClaimDeleted"
    HELD = "Held"
    HEALING_FOUGHT = "HealingFought"
    LEDGER_MISSING = "LedgerMissing"
    PAYLOAD_MISSING = "PayloadMissing"
    UPDATE_FAILED = "UpdateFailed"
    """A `pulumi up` ended before it had declared everything."""
    UPDATE_IN_PROGRESS = "UpdateInProgress"

    # Of changes.
    ACTION_CONFLICT = "ActionConflict"
    ACTION_FAILED = "ActionFailed"
    OPERATOR_DEFECT = "OperatorDefect"
    ACTION_REFUSED = "ActionRefused"

    # Of state that could not be read.
    JOBS_NOT_LISTED = "JobsNotListed"
    NODES_UNREADABLE = "NodesUnreadable"
    NOT_READABLE = "NotReadable"
    NOT_ASKED = "NotAsked"
    RESERVATION_UNREADABLE = "ReservationUnreadable"
    REST_ANSWER_UNUSABLE = "RestAnswerUnusable"
    REST_UNAUTHORIZED = "RestUnauthorized"
    REST_UNREACHABLE = "RestUnreachable"
    REST_UNTRUSTED = "RestUntrusted"
    SLURMCTLD_UNREACHABLE = "SlurmctldUnreachable"
    SLURM_REFUSED = "SlurmRefused"
    TOO_MANY_JOBS = "TooManyJobs"
    WATCHING = "Watching"

    # Of conditions when all is well.
    AS_WANTED = "AsWanted"
    NOT_STALLED = "NotStalled"
    READY = "Ready"
    STEADY = "Steady"


NO_USE_TO_WAIT: Final = frozenset(
    {Reason.ANOTHER_CLUSTER_IN_NAMESPACE, Reason.CONFIGURATION_REFUSED, Reason.STATEFUL_SET_SHARED}
)
"""Reasons that end only when a person declares something else."""
