"""Configuration of a site's thresholds of health checks, which go before those of health/thresholds."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from components.config.model import Model, setting
from components.config.rule import Violation, rule
from components.config.values.quantities import WholeNumber
from components.config.values.validation import matching
from contract.thresholds import ANY, OF_LONG_CHECKS, OF_MACHINES, OF_PRODUCTS, PRODUCTS_BEGIN

ProductName = Annotated[
    str,
    matching(
        f"{ANY}|({'|'.join(PRODUCTS_BEGIN)})[ -~]{{1,80}}",
        f"{ANY}, or a product as the driver says it, {'… or '.join(PRODUCTS_BEGIN)}…",
    ),
]


class Thresholds(Model):
    """Thresholds of a product of GPUs, or of what every machine has; see docs/health.md."""

    product: ProductName = setting(
        "The GPUs' product as the driver says it, such as NVIDIA A10; any: thresholds of what every machine has."
    )
    numbers: dict[str, Annotated[WholeNumber, Field(ge=0)]] = setting(
        f"Threshold to number. Of a product: {', '.join(OF_PRODUCTS)}. Of any: {', '.join(OF_MACHINES)}.",
        unit="as docs/health.md#thresholds says",
        min_length=1,
    )

    @rule
    def _numbers(self) -> Iterator[Violation]:
        known = OF_MACHINES if self.product == ANY else OF_PRODUCTS
        for key in self.numbers:
            if key in OF_LONG_CHECKS:
                yield Violation("numbers", key, want="nothing: health.longChecks[].least says that")
            elif key not in known:
                yield Violation("numbers", key, want=f"a number for one of {', '.join(known)}")
