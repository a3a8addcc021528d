"""Order of test files. The longest come first, so that workers that take whole files end together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from devcluster.machine.bootstrap import CHECKOUT

MEASURED = CHECKOUT / "tests" / "seconds.json"
"""Seconds that each longer file took when `python3 -m devcluster.suite.renew` last wrote them (docs/adr/0030)."""
USUAL_SECONDS = 10.0
"""For a short file, or one that nobody has measured."""
SHORT_SECONDS = 60.0
"""Shorter files fill up what the longer ones leave, whatever they do to a cluster."""
ROUGH = frozenset(
    f"tests/e2e/{name}.py"
    for name in (
        *("jail/test_versions", "jail/test_witness", "nodes/test_health"),
        *("operator/test_away", "operator/test_faults", "operator/test_removal", "operator/test_windows"),
    )
)
"""Files that change declared objects by hand, take the operator or nodes away, or leave another root.

They come after the long files that compare a cluster with what Pulumi declared.
"""


def measured(file: Path = MEASURED) -> dict[str, float]:
    """Read the seconds of each file, by its path in the checkout."""
    seconds: dict[str, float] = json.loads(file.read_text())
    return seconds


def rank(file: str, seconds: Mapping[str, float]) -> tuple[int, float]:
    """Return what files are sorted by.

    Args:
        file: its path in the checkout.
        seconds: of the files that were measured.
    """
    lasts = seconds.get(file, USUAL_SECONDS)
    if lasts < SHORT_SECONDS:
        return 2, -lasts
    return int(file in ROUGH), -lasts
