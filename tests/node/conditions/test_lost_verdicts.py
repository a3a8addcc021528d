"""No verdict is lost between the checks, the pod's entry and slurmctld, in whatever order runs and silences come."""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st
from node_health import __main__ as command
from node_health import node, report
from node_health.check import Context
from node_health.report import Report
from node_health.verdict import Finding, Result, Verdict
from slurm_node.conditions.drains import REPEAT_SECONDS, RETRY_SECONDS, OwnDrain
from slurm_node.conditions.health_watch import HealthWatch

from contract.reasons import HEALTH, JAIL, Check

ALWAYS = (Check.SPACE, Check.GPUS, Check.NVME)
BETWEEN_JOBS = (Check.LEFT_PROCESSES,)
"""Checks that no run after a job makes."""
LONG = RETRY_SECONDS + REPEAT_SECONDS


class Slurmctld:
    """Answers scontrol for one node, unless it is away."""

    def __init__(self) -> None:
        self.away = False
        self.reason = ""

    def __call__(self, *arguments: str) -> str | None:
        if self.away:
            return None
        for change in arguments[1:]:
            if change.startswith("reason="):
                self.reason = change.removeprefix("reason=")
            elif change == "state=undrain":
                self.reason = ""
        shown = f" Reason={self.reason} [root@2026-11-21T15:00:00]" if self.reason else ""
        return f"NodeName=n State={'IDLE+DRAIN' if self.reason else 'IDLE'}{shown}\n"


class Node:
    """A node whose checks say anything, with the entry that reads it."""

    def __init__(self, seed: int, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.random, self.folder, self.now = random.Random(seed), folder, 1000.0
        self.slurmctld = Slurmctld()
        self.fails: dict[str, bool] = {}
        self.blind: set[str] = set()
        for name in ("LOCK", "RESULTS", "UNFIT", "HISTORY"):
            patch.setattr(node, name, folder / name)
        patch.setattr(node, "FOLDER", folder)
        patch.setattr(node, "read", node.Declared)
        patch.setattr(command, "run", self.run)
        patch.setattr(report.write, "__defaults__", (False, node.RESULTS, node.UNFIT))
        self.watch = HealthWatch(node.RESULTS, node.UNFIT, told=node.HISTORY)
        self.drain = OwnDrain("n", self.slurmctld, folder / "refused")

    def run(self, context: Context) -> Report:
        """Make a run, and remember which checks fail: one that could not look knows nothing new."""
        made = ALWAYS if context is Context.EPILOG else ALWAYS + BETWEEN_JOBS
        results = [Result(check, Finding(self.random.choice([*Verdict]), f"{check} says so")) for check in made]
        for result in results:
            if result.finding.verdict is Verdict.UNKNOWN:
                self.blind.add(result.check)
            else:
                self.blind.discard(result.check)
                self.fails[result.check] = result.finding.verdict is Verdict.FAIL
        return Report(tuple(results), {}, self.now)

    def pass_time(self, seconds: float) -> None:
        """Let the entry look twice, with so much time between."""
        for _ in range(2):
            self.now += seconds
            self.watch.tick(self.now)
            self.drain.tick(self.now, {JAIL: None, **self.watch.causes})

    def record(self) -> None:
        """Make a run for Slurm; now and then its folder has room for the verdict alone."""
        context = Context.START if not self.fails else self.random.choice([Context.PERIODIC, Context.EPILOG])
        if node.HISTORY.is_dir():
            node.HISTORY.rmdir()
        elif self.random.random() < 0.2:
            node.HISTORY.unlink(missing_ok=True)
            node.HISTORY.mkdir()
        command.record(context)
        os.utime(node.RESULTS, (self.now, self.now))


@hypothesis.given(seed=st.integers(0, 2**32))
@hypothesis.settings(max_examples=60, deadline=None)
def test_a_failure_drains_until_its_check_says_otherwise_whatever_comes_between(seed: int) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        there = Node(seed, Path(name), patch)
        for _ in range(40):
            there.slurmctld.away = there.random.random() < 0.3
            there.record()
            there.pass_time(there.random.choice([0.5, 20.0]))
            if there.random.random() < 0.1:
                there.slurmctld.reason = ""  # Somebody undrains it.
            if there.slurmctld.away:
                continue
            there.pass_time(LONG)
            failing = {check for check, fails in there.fails.items() if fails}
            assert node.UNFIT.exists() == bool(failing)
            drained_by = there.slurmctld.reason.removeprefix(f"{HEALTH} ").partition(": ")[0]
            # A drain outlives its failure while its check can't look: slurmctld may not have heard that it passed.
            assert drained_by in failing | there.blind if drained_by else not failing
