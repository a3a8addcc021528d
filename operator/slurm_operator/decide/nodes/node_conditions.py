"""Conditions of Kubernetes nodes that other programs write, such as node-problem-detector: they count as checks.

A condition that fails drains the Slurm nodes on its Kubernetes node. UNKNOWN never counts as PASS: the condition is
Unknown, or nobody has written it. It lifts no drain that names it. The policy notes it, or drains for it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable

from contract import reasons
from slurm_operator.findings import shown
from slurm_operator.state.kubernetes import K8sNode
from slurm_operator.state.resources import NodeCondition

_A_WORD = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_A_TYPE = re.compile("[= ]")
"""The character after a type in a drain's reason."""
_SHOWN = 5
"""Conditions that a drain's reason names: a node set may have 32, each with a long type."""
_HAS_MORE = re.compile(r" and \d+ more$")


@dataclasses.dataclass(frozen=True, slots=True)
class Verdicts:
    """The conditions that fail, and those that are unknown: type → the same in words, such as KernelDeadlock=True."""

    failed: tuple[tuple[str, str], ...] = ()
    unknown: tuple[tuple[str, str], ...] = ()

    def words(self, k8s_node: str) -> str:
        """Return a sentence about the conditions that fail, or else about those that are unknown; empty for none."""
        told = self.failed or self.unknown
        return f"{k8s_node} says {shown([words for _, words in told], _SHOWN)}" if told else ""

    def keep(self, reason: str, k8s_node: str) -> bool:
        """Return whether a drain for a condition stays, since nobody knows whether that still holds.

        Args:
            reason: the reason of the drain.
            k8s_node: the Kubernetes node on which the pod is now.
        """
        begin = f"{reasons.NODE}{k8s_node} says "
        if not reason.startswith(begin):
            return False
        said = (words.removeprefix("no ") for words in reason.removeprefix(begin).split(", "))
        named = {_A_TYPE.split(words)[0] for words in said}
        is_cut = _HAS_MORE.search(reason) is not None  # Any other condition may be one of those.
        return any(is_cut or kind in named for kind, _ in self.unknown)


def judge(k8s_node: K8sNode | None, wanted: Iterable[NodeCondition]) -> Verdicts:
    """Return what the conditions of a Kubernetes node say; nothing of one that is not known itself."""
    if k8s_node is None:
        return Verdicts()
    there = {kind: (status, reason) for kind, status, reason in k8s_node.conditions}
    failed: list[tuple[str, str]] = []
    unknown: list[tuple[str, str]] = []
    for condition in wanted:
        status, reason = there.get(condition.type, ("", ""))
        words = f"{condition.type}={status}" if status else f"no {condition.type}"
        if status == str(condition.fails_when):
            failed.append((condition.type, f"{words} ({reason})" if _A_WORD.fullmatch(reason) else words))
        elif status != str(not condition.fails_when):
            (failed if condition.unknown_drains else unknown).append((condition.type, words))
    return Verdicts(tuple(failed), tuple(unknown))
