"""Runs the checks of a node in processes that may hang."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from contract.printable import printable
from node_health import node, time_box
from node_health.answering import Question
from node_health.check import SECONDS, Applies, CannotJudgeError, Check, DoesNotApplyError, Machine
from node_health.report import Report
from node_health.time_box import Timed
from node_health.verdict import Action, Answer, Finding, Result, Skipped, Verdict, unknown

DRIVERS = frozenset({Applies.NVIDIA, Applies.RDMA})
SWITCHED_OFF = "switched off by health.checks.disabled"


def run(machine: Machine, checks: Iterable[Check], seconds: float = SECONDS) -> Report:
    """Runs checks on a machine.

    Args:
        machine: where.
        checks: what; those that the administrator switched off are skipped.
        seconds: how long all may take together.
    """
    wanted = list(checks)
    on = [check for check in wanted if check.name not in machine.declared.disabled]
    hanging, began = machine.path(node.HANGING), time.monotonic()
    answers = time_box.ask(questions(machine, on), seconds, hanging)
    return replace(report_of(wanted, answers), seconds=time.monotonic() - began)


def questions(machine: Machine, checks: Iterable[Check]) -> list[Question]:
    """Returns a question for each source: checks that share it are asked together.

    Those about NVIDIA's GPUs and about adapters share no process with others, since they call what drivers bring.
    """
    machine = replace(machine, known={})
    by_source: dict[Callable[[Machine], Any], list[Check]] = {}
    for check in checks:
        by_source.setdefault(check.look, []).append(check)
    return [
        Question(
            tuple(check.name for check in group),
            partial(answer, machine, group),
            max(check.seconds for check in group),
            group[0].applies if group[0].applies in DRIVERS else "",
            {check.name: check.hang_seconds for check in group},
        )
        for group in by_source.values()
    ]


def answer(machine: Machine, checks: list[Check]) -> Mapping[str, Answer]:
    """Looks once and judges for each check; a check with a defect gives UNKNOWN, and does not harm the others."""
    try:
        facts = machine.once(checks[0].look)
    except DoesNotApplyError as absent:
        return {check.name: Skipped(str(absent)) for check in checks}
    except CannotJudgeError as error:
        return {check.name: unknown(str(error)) for check in checks}
    return {check.name: judge(check, facts, machine) for check in checks}


def judge(check: Check, facts: Any, machine: Machine) -> Answer:
    """Returns a check's answer to what was read; a defect of the check is UNKNOWN."""
    try:
        return check.judge(facts, machine)
    except DoesNotApplyError as absent:
        return Skipped(str(absent))
    except CannotJudgeError as error:
        return unknown(str(error))
    except Exception as error:  # Whatever it is: a check that raises is UNKNOWN, with that as its evidence.
        return unknown(f"{type(error).__name__}: {error}")


def report_of(checks: Iterable[Check], answers: Mapping[str, Timed]) -> Report:
    """Returns the report: findings with their remedies, and what was skipped."""
    results: list[Result] = []
    skipped: dict[str, str] = {}
    for check in checks:
        timed = answers.get(check.name, Timed(Skipped(SWITCHED_OFF)))
        if isinstance(timed.answer, Skipped):
            skipped[check.name] = printable(timed.answer.why)
        else:
            results.append(_result(check, timed.answer, timed.seconds))
    return Report(tuple(results), skipped, time.time())


def _result(check: Check, finding: Finding, seconds: float) -> Result:
    finding = replace(finding, evidence=printable(finding.evidence))
    if finding.verdict is Verdict.PASS:
        return Result(check.name, finding, seconds=seconds)
    # Nobody knows what to repair where nobody could look.
    own = Action.NONE if finding.verdict is Verdict.UNKNOWN else check.action
    return Result(check.name, finding, check.remedy, finding.action or own, seconds)
