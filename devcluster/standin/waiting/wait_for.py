"""The annotation `pulumi.com/waitFor`: the condition that a program wants to wait for."""

from __future__ import annotations

import dataclasses
from typing import Any

from devcluster.standin.decisions.kinds import Manifest


@dataclasses.dataclass(frozen=True, slots=True)
class Expression:
    """One condition of an object's status, compared without regard to case."""

    condition: str
    status: str

    @property
    def written(self) -> str:
        """Its form in the annotation."""
        return f"condition={self.condition}" + (f"={self.status}" if self.status != "True" else "")

    def holds(self, live: Manifest) -> tuple[bool, str]:
        """Tells whether a live object has it, and what was there instead."""
        status = live.get("status")
        status = status if isinstance(status, dict) else {}
        for condition in status.get("conditions") or []:
            if str(condition.get("type", "")).lower() != self.condition.lower():
                continue
            if _stale(live, condition.get("observedGeneration", status.get("observedGeneration"))):
                return False, "the condition is of an older generation"
            actual = str(condition.get("status", ""))
            # Reason and message stay away: the official provider does not show them.
            return actual.lower() == self.status.lower(), f"{self.condition}={actual}"
        return False, f"it has no condition {self.condition}"


def parse(annotation: str) -> Expression:
    """Reads the annotation: `condition=Type` or `condition=Type=Status`.

    Raises:
        ValueError: it is something else, which only the official provider may understand.
    """
    if not annotation.startswith("condition="):
        raise ValueError(
            f"pulumi.com/waitFor: the stand-in provider has one `condition=`, and not {annotation!r}: use the official"
            " plugin"
        )
    name, _, status = annotation.removeprefix("condition=").partition("=")
    return Expression(name, status or "True")


def _stale(live: Manifest, observed: Any) -> bool:
    generation = live.get("metadata", {}).get("generation")
    return isinstance(generation, int) and isinstance(observed, int) and observed < generation
