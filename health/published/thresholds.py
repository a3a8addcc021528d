"""Reads health/thresholds/*.yaml: what is wrong in any of them is told at once, with its path."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from contract.thresholds import ANY, OF_LONG_CHECKS, PRODUCTS_BEGIN, units

FOLDER = Path(__file__).parents[1] / "thresholds"


class Threshold(BaseModel):
    """One number, its unit and where it comes from."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    value: Literal["unknown"] | int | float = Field(description="The number, or unknown.")
    unit: str
    source: str = Field(min_length=1)


class Product(BaseModel):
    """The thresholds of a product."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    product: str
    thresholds: dict[str, Threshold]

    @property
    def numbers(self) -> dict[str, float | None]:
        """Key → number; None: unknown."""
        return {
            key: None if threshold.value == "unknown" else threshold.value
            for key, threshold in sorted(self.thresholds.items())
        }


class ThresholdError(Exception):
    """Files of thresholds are wrong; a line for each mistake."""


def read(folder: Path = FOLDER) -> dict[str, Product]:
    """Returns the products of all files, by name.

    Raises:
        ThresholdError: something is wrong, with every path.
    """
    products: dict[str, Product] = {}
    wrong: list[str] = []
    for file in sorted(folder.iterdir()):
        if file.suffix != ".yaml":
            wrong.append(f"{file.name}: want a file PRODUCT.yaml")
            continue
        product, mistakes = _read(file)
        wrong += [f"{file.name}: {mistake}" for mistake in mistakes]
        if product is not None and product.product in products:
            wrong.append(f"{file.name}: product: got {product.product!r}, which another file has")
        elif product is not None:
            products[product.product] = product
    if ANY not in products and not wrong:
        wrong.append(f"{ANY}.yaml: missing")
    if wrong:
        raise ThresholdError("\n".join(wrong))
    return products


def text(folder: Path = FOLDER) -> str:
    """Returns thresholds.json, which the image has."""
    numbers = {name: product.numbers for name, product in sorted(read(folder).items())}
    return json.dumps(numbers, indent=2) + "\n"


def _read(file: Path) -> tuple[Product | None, list[str]]:
    try:
        product = Product.model_validate(yaml.safe_load(file.read_text()))
    except yaml.YAMLError as error:
        return None, [f"no YAML: {' '.join(str(error).split())}"]
    except ValidationError as error:
        return None, [
            f"{_path(problem['loc'])}: got {problem['input']!r}; {problem['msg']}" for problem in error.errors()
        ]
    return product, list(_mistakes(product))


def _path(location: tuple[int | str, ...]) -> str:
    # A union's branches are no part of the file.
    return ".".join(
        str(part) for part in location if not str(part).startswith("literal[") and part not in ("int", "float")
    )


def _mistakes(product: Product) -> Iterator[str]:
    if product.product != ANY and not product.product.startswith(PRODUCTS_BEGIN):
        names = "… or ".join(PRODUCTS_BEGIN)
        yield f"product: got {product.product!r}; want {ANY}, or a name as the driver says it, {names}…"
        return
    known = units(product.product)
    for key, threshold in product.thresholds.items():
        if key not in known:
            yield f"thresholds.{key}: unknown key; want one of {', '.join(known)}"
        elif threshold.unit != known[key]:
            yield f"thresholds.{key}.unit: got {threshold.unit!r}; want {known[key]!r}"
        elif threshold.value != "unknown" and threshold.value < 0:
            yield f"thresholds.{key}.value: got {threshold.value}; want 0 or more, or unknown"
        elif key in OF_LONG_CHECKS and (isinstance(threshold.value, float) or threshold.value == 0):
            yield f"thresholds.{key}.value: got {threshold.value}; want a whole number of 1 or more, or unknown"
    for key in known.keys() - product.thresholds.keys():
        yield f"thresholds.{key}: missing; want a value, or unknown"
