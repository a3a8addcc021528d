"""The README's picture is the one that its script draws, and reads on a light and a dark page."""

from __future__ import annotations

import dataclasses
import itertools
import subprocess
import sys

import pytest

from devcluster.machine.bootstrap import CHECKOUT
from docs import draw_jail

ENOUGH_CONTRAST = 4.5
"""WCAG 2.2, 1.4.3: text against its background."""


def luminance(colour: str) -> float:
    """Relative luminance of #rrggbb, as WCAG defines it."""
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_the_picture_is_what_its_script_draws_now():
    script = CHECKOUT / "docs/draw_jail.py"
    drawn = subprocess.check_output([sys.executable, script], text=True, timeout=60)
    assert (CHECKOUT / "docs/jail.svg").read_text() == drawn, "run: python3 docs/draw_jail.py > docs/jail.svg"


@pytest.mark.parametrize("palette", [draw_jail.LIGHT, draw_jail.DARK], ids=["light", "dark"])
def test_text_and_lines_stand_out_from_their_background(palette):
    shown = dataclasses.asdict(palette)
    pairs = [("page", "text"), ("page", "line"), *((box.fill, box.ink) for box in draw_jail.BOXES)]
    faint = {pair for pair in pairs if contrast(shown[pair[0]], shown[pair[1]]) < ENOUGH_CONTRAST}
    assert faint == set()


def test_every_text_fits_its_box_and_every_box_the_picture():
    for box in draw_jail.BOXES:
        assert box.longest_line() <= box.width - 20, box
        assert box.text_height() <= box.height, box
        assert box.x >= 0 and box.x + box.width <= draw_jail.WIDTH
        assert box.y >= 0 and box.y + box.height <= draw_jail.HEIGHT
    for one, other in itertools.combinations([box for box in draw_jail.BOXES if box.fill == "pod"], 2):
        assert one.x + one.width < other.x
