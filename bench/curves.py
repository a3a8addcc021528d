"""Draws what grows with a size: one plot for each name, over the sizes that were measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.measurement import Measurement

SALT = "pulumi-slurm"
"""Names inside of an SVG follow from it, so that the same numbers give the same file."""
Values = Mapping[str, tuple[float, Mapping[str, float]]]
"""By name, what was measured at a size, and its detail."""


@dataclass(frozen=True, slots=True)
class Curves:
    """The plots of the first six bounds, in one file.

    Attributes:
        file: its name in docs/.
        words: lines of the page about it.
        label: of the axis of sizes.
        sizes: those that may have been measured.
        title: returns how the names of a size's rows begin.
        bounds: by name, the bound and the unit.
        scale: of the axis of sizes, as matplotlib has it.
    """

    file: str
    words: tuple[str, ...]
    label: str
    sizes: Sequence[int]
    title: Callable[[int], str]
    bounds: Mapping[str, tuple[float | None, str]]
    scale: Mapping[str, Any]

    def rows(self, values: Mapping[int, Values]) -> list[Measurement]:
        """Return the rows of all sizes."""
        return [
            Measurement(f"{self.title(size)}: {name}", by_name[name][0], bound, unit, by_name[name][1])
            for size, by_name in values.items()
            for name, (bound, unit) in self.bounds.items()
        ]

    def draw(self, rows: Iterable[Measurement], folder: Path) -> bool:
        """Write the file from rows; return False if none of them belongs to it."""
        values = {row.name: row.value for row in rows}
        there = {
            name: {n: values[key] for n in self.sizes if (key := f"{self.title(n)}: {name}") in values}
            for name in self.bounds
        }
        if not any(there.values()):
            return False
        pyplot = svg()
        figure, grid = pyplot.subplots(2, 3, figsize=(10, 5))
        for axes, (name, (bound, unit)) in zip(grid.flat, self.bounds.items(), strict=False):
            axes.plot([*there[name]], [*there[name].values()], marker="o", color="#2f6f4f")
            if bound is not None:
                axes.axhline(bound, color="black", linewidth=1)
            axes.set(ylim=(0, None), xlabel=self.label, ylabel=unit, title=name, **self.scale)
            axes.title.set_fontsize(9)
        save(figure, folder / self.file)
        return True


def svg() -> Any:
    """Return pyplot, which draws SVG from here on."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = SALT
    from matplotlib import pyplot

    return pyplot


def save(figure: Any, file: Path) -> None:
    """Write a figure without its date, and end it."""
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})
    svg().close(figure)
