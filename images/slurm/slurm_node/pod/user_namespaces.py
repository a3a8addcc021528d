"""Tells at a pod's start when users can make no user namespaces here; node-health looks again and again on workers."""

from node_health.checks import user_namespaces
from node_health.verdict import Verdict

from slurm_node.pod.log import say


def warn() -> None:
    """Says what the machine lacks for rootless containers; all else works without."""
    finding = user_namespaces.judge(user_namespaces.look())
    if finding.verdict is not Verdict.PASS:
        say(f"warning: {finding.evidence}")
