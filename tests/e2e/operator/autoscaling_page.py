"""The examples of docs/autoscaling.md, as a reader copies them: what tests apply is what the page shows."""

from __future__ import annotations

import re
from typing import Any

import yaml

from devcluster.machine.bootstrap import CHECKOUT

PAGE = CHECKOUT / "docs" / "autoscaling.md"


def examples() -> list[dict[str, Any]]:
    """Each YAML block of the page."""
    return [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.M | re.S)]


def of_kind(kind: str) -> dict[str, Any]:
    """The one example of a kind."""
    (found,) = [each for each in examples() if each.get("kind") == kind]
    return found


def adapter_rule() -> dict[str, Any]:
    """The one rule of prometheus-adapter, in its chart's values."""
    (values,) = [each for each in examples() if "rules" in each]
    (rule,) = values["rules"]["external"]
    found: dict[str, Any] = rule
    return found
