"""Warns at a pod's start if users can't make user namespaces. On workers node-health checks it again and again."""

from node_health.checks.kernel import user_namespaces
from node_health.verdict import Verdict

from slurm_node.pod.log import say


def warn() -> None:
    """Logs what the Kubernetes node lacks for rootless containers. All else works without it."""
    finding = user_namespaces.judge(user_namespaces.attempt())
    if finding.verdict is not Verdict.PASS:
        say(f"warning: {finding.evidence}")
