"""Thresholds of products, as data: thresholds.json is made of health/thresholds/*.yaml (health/published)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from node_health.check import CannotJudgeError

FILE = Path(__file__).with_name("thresholds.json")
ANY = "any"
"""Product of the file for what every machine has."""

UNITS: Mapping[str, Mapping[str, str]] = {
    ANY: {
        "clock.error": "ms",
        "cpu.steal": "percent",
        "cpu.throttled": "events per hour",
        "gpu.corrected": "errors per hour",
        "gpu.pcieReplays": "events per hour",
        "gpu.temperatureMargin": "degrees Celsius",
        "gpu.throttledSeconds": "seconds",
        "infiniband.errors": "errors per hour",
        "infiniband.flaps": "events per hour",
        "kernel.hungSeconds": "seconds",
        "kernel.processes": "percent",
        "memory.corrected": "errors per hour",
        "memory.leftovers": "percent",
        "network.errors": "errors per million packets",
        "network.flaps": "events per hour",
        "nvlink.errors": "errors per hour",
    },
    "gpu": {
        "allReduce.bandwidth": "GB/s",
        "allReduce.message": "GiB",
        "gpu.pcieGeneration": "generation",
        "gpu.pcieWidth": "lanes",
        "gpu.powerLimit": "W",
        "gpu.smClock": "MHz",
        "infiniband.rate": "Gb/s",
        "nvbandwidth.host": "GB/s",
        "nvlink.links": "links",
    },
}
"""Key → unit, of the file `any` and of those of products of GPUs."""
LONG_CHECKS = frozenset({"allReduce.bandwidth", "allReduce.message", "nvbandwidth.host"})
"""Keys that long checks compare with (components/control/gpu_checks.py): whole numbers, as a shell counts."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Numbers of one product.

    Attributes:
        product: as the driver names it.
        numbers: key → number; None where nobody knows one.
        known: whether there is a file for the product.
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
            raise UnknownThresholdError(
                f"no threshold {key} for {self.product}" if self.known else f"no thresholds for {self.product}"
            )
        return value


class UnknownThresholdError(CannotJudgeError):
    """A product has no threshold, so that nobody can judge the number. It is UNKNOWN, never PASS."""


@cache
def _products(file: Path = FILE) -> Mapping[str, Mapping[str, float | None]]:
    said: Mapping[str, Mapping[str, float | None]] = json.loads(file.read_text())
    return said


def of(product: str = ANY) -> Thresholds:
    """Returns the thresholds of a product; of `any` for what every machine has."""
    numbers = _products().get(product)
    return Thresholds(product, numbers or {}, numbers is not None)
