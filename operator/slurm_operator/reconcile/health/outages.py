"""Follows the outages of nodes and the verdicts of their checks, for the SlurmCluster's status and for metrics."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping

from contract.node_notes import BEGINNINGS, FAST_SECONDS
from slurm_operator import metrics
from slurm_operator.clients.kubernetes import Object
from slurm_operator.decide.nodes import notes, outages, pod_conditions
from slurm_operator.decide.nodes.notes import Note
from slurm_operator.decide.nodes.outages import Outage, Span
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.state.kubernetes import Pod
from slurm_operator.state.slurm import Nodes

_HISTOGRAMS = {
    Span.DETECT: metrics.TIME_TO_DETECT,
    Span.DRAIN: metrics.TIME_TO_DRAIN,
    Span.REPAIR: metrics.TIME_TO_REPAIR,
}


class Outages:
    """The outages of one namespace's cluster. What it keeps stands in the status, too."""

    def __init__(self) -> None:
        self._of = ""
        self._known: tuple[Outage, ...] | None = None
        self._verdicts: dict[str, str] = {}
        self._unfit: dict[str, str] = {}
        self._checks: set[tuple[str, str, str]] = set()
        self._runs: dict[tuple[str, str], int] = {}

    def forget(self) -> None:
        """Forget what the status does not show: another operator may have acted meanwhile."""
        self._known = None

    def told(self, body: Object) -> list[Object] | None:
        """Return what the status of a SlurmCluster is to say; None for nothing."""
        return outages.written(self._before(body)) or None

    def look(
        self, body: Object, nodes: Nodes, sets: Iterable[NodeSetState], workers: Iterable[Pod], now: datetime.datetime
    ) -> None:
        """Follow what became of the nodes since the pass before, and measure it."""
        sizes = {state.stateful_set: state.wanted for state in sets}
        before = self._before(body)
        after = outages.follow(before, nodes, lambda name: _is_wanted(name, sizes), now.replace(microsecond=0))
        for span, check, seconds in outages.measured(before, after):
            _HISTOGRAMS[span].labels(check).observe(seconds)
        self._known = after
        there = [*workers]
        verdicts = {pod.name: pod_conditions.verdict(pod, nodes.get(pod.name)) for pod in there}
        self._show(after, verdicts)
        noted = {pod.name: notes.read(nodes[pod.name].extra) for pod in there if pod.name in nodes}
        self._show_checks(noted)
        self._show_runs(noted, {name for name in noted if verdicts[name] != "UNKNOWN" and _notes(nodes[name].extra)})

    def _before(self, body: Object) -> tuple[Outage, ...]:
        uid = body["metadata"]["uid"]
        if self._known is None or uid != self._of:
            self._of, self._known = uid, outages.read(body.get("status", {}).get("outages", ()))
        return self._known

    def _show(self, known: Iterable[Outage], verdicts: dict[str, str]) -> None:
        lasting = {outage.node: outage for outage in known if outage.until is None}
        checks = {node: outage.check for node, outage in lasting.items()}
        for node, check in self._unfit.items():
            if checks.get(node) != check:
                metrics.NODE_UNFIT_SINCE.remove(node, check)
        for node, verdict in self._verdicts.items():
            if verdicts.get(node) != verdict:
                metrics.NODE_VERDICT.remove(node, verdict)
        for node, outage in lasting.items():
            metrics.NODE_UNFIT_SINCE.labels(node, outage.check).set(outage.since.timestamp())
        for node, verdict in verdicts.items():
            metrics.NODE_VERDICT.labels(node, verdict).set(1)
        self._unfit, self._verdicts = checks, verdicts

    def _show_checks(self, noted: Mapping[str, Note]) -> None:
        """Show the checks that did not pass, at most MOST_CHECKS of a node."""
        checks = {(name, check, verdict) for name, note in noted.items() for check, verdict in note.verdicts.items()}
        for labels in self._checks - checks:
            metrics.NODE_CHECK.remove(*labels)
        for labels in checks:
            metrics.NODE_CHECK.labels(*labels).set(1)
        self._checks = checks

    def _show_runs(self, noted: Mapping[str, Note], looked: Iterable[str]) -> None:
        """Show how long runs take on each node; one that looked and notes no slow run had none."""
        runs = {(name, note.slowest): note.seconds for name, note in noted.items() if note.seconds}
        runs |= {(name, ""): FAST_SECONDS for name in looked if not noted[name].seconds}
        for run in self._runs.keys() - runs.keys():
            metrics.NODE_CHECK_RUN.remove(*run)
        for run, seconds in runs.items():
            metrics.NODE_CHECK_RUN.labels(*run).set(seconds)
        self._runs = runs


def _notes(extra: str) -> bool:
    """Return whether the node may note there; somebody else's text stays, and then nothing is known."""
    return not extra or extra.startswith(BEGINNINGS)


def _is_wanted(name: str, sizes: Mapping[str, int]) -> bool:
    """Return whether a node set wants a node of that name: its StatefulSet's name, and an ordinal."""
    base, _, ordinal = name.rpartition("-")
    return ordinal.isdigit() and int(ordinal) < sizes.get(base, 0)
