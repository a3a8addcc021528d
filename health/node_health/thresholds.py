"""Thresholds of products, as data: thresholds.json is made of health/thresholds/*.yaml (health/published).

Those of the site come with the scripts of the site, and go before.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from contract import paths
from contract.thresholds import ANY
from node_health.check import CannotJudgeError

FILE = Path(__file__).with_name("thresholds.json")
SITE = Path(paths.SITE_THRESHOLDS)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Numbers of one product.

    Attributes:
        product: as the driver names it.
        numbers: key → number; None where nobody knows one.
        known: whether some are published, or of the site.
    """

    product: str
    numbers: Mapping[str, float | None] = field(default_factory=dict)
    known: bool = True

    def number(self, key: str) -> float:
        """Returns a threshold.

        Raises:
            UnknownThresholdError: nobody knows it for this product.
        """
        if (value := self.numbers.get(key)) is None:
            what = f"no threshold {key} for {self.product}" if self.known else f"no thresholds for {self.product}"
            raise UnknownThresholdError(f"{what}: health.thresholds may have it")
        return value


class UnknownThresholdError(CannotJudgeError):
    """A product has no threshold, so that nobody can judge the number. It is UNKNOWN, never PASS."""


@cache
def _products(file: Path) -> Mapping[str, Mapping[str, float | None]]:
    """Returns the numbers of a file by product; none where it is missing."""
    try:
        said: Mapping[str, Mapping[str, float | None]] = json.loads(file.read_text())
    except FileNotFoundError:
        return {}
    return said


def of(product: str = ANY) -> Thresholds:
    """Returns the thresholds of a product; of `any` for what every machine has."""
    published, own = (_products(file).get(product) for file in (FILE, SITE))
    return Thresholds(product, {**(published or {}), **(own or {})}, (published, own) != (None, None))
