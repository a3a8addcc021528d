"""The operator's metrics for Prometheus."""

import prometheus_client as prometheus

PASSES = prometheus.Histogram("pulumi_slurm_pass_seconds", "Duration of a pass", ["subject", "outcome"])
HEALS = prometheus.Counter("pulumi_slurm_heals_total", "Declared objects restored", ["kind", "name", "cause"])
HEALING_PAUSED = prometheus.Gauge("pulumi_slurm_healing_paused_seconds", "Since when nothing is restored; 0: it is")
ACTIONS = prometheus.Counter("pulumi_slurm_actions_total", "Changes made", ["action"])
ACTION_FAILURES = prometheus.Counter("pulumi_slurm_action_failures_total", "Changes that failed", ["action"])
POD_CONDITIONS = prometheus.Counter("pulumi_slurm_pod_conditions_total", "Conditions written on pods")
DRAINS = prometheus.Counter("pulumi_slurm_drains_total", "Nodes that the operator drained", ["reason"])
LONG_CHECKS = prometheus.Counter(
    "pulumi_slurm_long_checks_total", "Verdicts of long checks' jobs", ["check", "verdict"]
)
_MINUTES = (1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600)
_DAYS = (60, 300, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400, 172_800, 604_800)
TIME_TO_DETECT = prometheus.Histogram(
    "pulumi_slurm_time_to_detect_seconds",
    "From the last run in which a node's check did not fail to the first one in which it failed",
    ["check"],
    buckets=_MINUTES,
)
TIME_TO_DRAIN = prometheus.Histogram(
    "pulumi_slurm_time_to_drain_seconds", "From that run to the node's drain", ["check"], buckets=_MINUTES
)
TIME_TO_REPAIR = prometheus.Histogram(
    "pulumi_slurm_time_to_repair_seconds",
    "From a node's drain for a fault until it took jobs again",
    ["check"],
    buckets=_DAYS,
)
NODE_UNFIT_SINCE = prometheus.Gauge(
    "pulumi_slurm_node_unfit_since_seconds", "When a node was drained for a fault that lasts", ["node", "check"]
)
NODE_VERDICT = prometheus.Gauge(
    "pulumi_slurm_node_verdict", "1: the last verdict of a node's own checks", ["node", "verdict"]
)
NODE_CHECK = prometheus.Gauge(
    "pulumi_slurm_node_check", "1: the last verdict of a node's check that did not pass", ["node", "check", "verdict"]
)
NODE_CHECK_RUN = prometheus.Gauge(
    "pulumi_slurm_node_check_run_seconds",
    "A node's longest run of checks in an hour, rounded up to 2, 5 or 10; of one above 2 s its slowest check, too",
    ["node", "check"],
)
HANGING_JOBS = prometheus.Gauge("pulumi_slurm_hanging_jobs", "Jobs that hang now", ["partition"])
HANG_SUSPECTS = prometheus.Gauge("pulumi_slurm_hang_suspects", "Jobs that hung on a node until now", ["node"])
REPLICA_MOVES = prometheus.Counter("pulumi_slurm_replica_moves_total", "Nodes added or removed", ["direction"])
REPAIRS_HELD = prometheus.Gauge(
    "pulumi_slurm_repairs_held", "Repairs of unfit nodes that are not done, and why", ["node_set", "reason"]
)
WANTED = prometheus.Gauge("pulumi_slurm_wanted_actions", "Nodes that are still to be acted on", ["node_set", "action"])
ALLOCATED_NODES = prometheus.Gauge("pulumi_slurm_allocated_nodes", "Nodes with at least one job", ["node_set"])
PENDING_NODES = prometheus.Gauge(
    "pulumi_slurm_pending_nodes", "Nodes that waiting jobs ask for, as far as they may start", ["partition"]
)
OUTDATED_NODES = prometheus.Gauge("pulumi_slurm_outdated_nodes", "Nodes with the configuration before slurmctld's")
LEADER = prometheus.Gauge("pulumi_slurm_lease_held", "1 while this process may act")
REST = prometheus.Histogram("pulumi_slurm_rest_seconds", "Latency of slurmrestd", ["call"])
REST_ERRORS = prometheus.Counter("pulumi_slurm_rest_errors_total", "Failed calls of slurmrestd", ["call", "error"])


def forget_cluster() -> None:
    """Forget what gauges tell of the cluster: another operator tells it now, or nobody has looked for long.

    Prometheus adds up the pages of all operators, so an old number would count beside the true one.
    """
    of_nodes = (ALLOCATED_NODES, HANG_SUSPECTS, NODE_UNFIT_SINCE, NODE_VERDICT, NODE_CHECK, NODE_CHECK_RUN)
    for gauge in (*of_nodes, HANGING_JOBS, PENDING_NODES, REPAIRS_HELD, WANTED):
        gauge.clear()
    OUTDATED_NODES.set(0)


def forget_node_set(name: str) -> None:
    """Forget what gauges tell of a node set that is gone."""
    ALLOCATED_NODES.remove(name)
    REPAIRS_HELD.clear()  # Those of the others come again with the next pass.
    WANTED.clear()
