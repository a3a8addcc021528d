"""Exceptions that nobody expected, in a part of a pass: the other parts go on, and people are told."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import Final

from slurm_operator.clients.kubernetes import KubernetesError
from slurm_operator.clients.lease import NotLeading
from slurm_operator.findings import Defect, Finding, Severity, of_defects

EXPECTED: Final = (KubernetesError, NotLeading, TimeoutError)
"""Exceptions that end a pass and are no defects: the next one begins anew."""

log = logging.getLogger(__name__)


class Defects:
    """The parts of one namespace's passes that ended with a defect when they ran last."""

    def __init__(self) -> None:
        self._there: dict[str, list[Finding]] = {}
        self._ran = set[str]()
        self._logged: dict[str, set[str]] = {}

    @contextlib.contextmanager
    def isolated(self, part: str, severity: Severity = Severity.WRONG) -> Iterator[None]:
        """Run a part of a pass; what it raises ends no other.

        Raises:
            KubernetesError: the API server was away or refused.
            NotLeading: the lease is not ours any more.
            TimeoutError: the pass has no more time.
        """
        defects = list[Defect]()
        try:
            yield
        except EXPECTED:
            raise
        except Exception as error:  # Whatever it is: no part may end the others.
            defects.append(Defect(part, error))
        self.log(part, defects)
        self._ran.add(part)
        self._there[part] = of_defects(defects, severity=severity)

    def log(self, of: str, defects: Sequence[Defect]) -> None:
        """Log the defects of a part, or of the parts of a decision, each once while it lasts."""
        before = self._logged.get(of, set())
        for defect in defects:
            if f"{defect.part}: {defect.words}" not in before:
                log.error("part of a pass failed: %s: %s", of, defect.part, exc_info=defect.error)
        self._logged[of] = {f"{defect.part}: {defect.words}" for defect in defects}

    def of(self, part: str) -> list[Finding]:
        """Return the findings about a part that ended with a defect; none about one that did not."""
        return self._there.get(part, [])

    def end_pass(self) -> None:
        """Forget the parts that this pass did not have: a node set that is gone has none any more."""
        self._there = {part: findings for part, findings in self._there.items() if part in self._ran}
        self._ran.clear()

    @property
    def findings(self) -> list[Finding]:
        """The findings about isolated parts."""
        return [finding for findings in self._there.values() for finding in findings]
