"""Promises about windows for updates before anything is planned: what is past is said, and a date may be far away."""

from __future__ import annotations

import datetime

import pytest

from components.config import parse
from components.preflight import update_windows
from tests.unit.samples import changed

NOW = datetime.datetime(2026, 12, 5, 7, 0, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("start", "is_told"),
    [
        ("2026-12-05T03:00Z", True),
        ("2026-12-05T03:01Z", False),
        ("2027-01-01T00:00Z", False),
        ("9999-12-31T23:59Z", False),
        ("Sat 03:00", False),
    ],
)
def test_a_window_that_is_past_is_told_and_stops_nothing(start: str, is_told: bool) -> None:
    config = parse(changed("nodeSets.0.update.window", {"start": start, "duration": "4h"}))
    words = f"{start} is past, so that no update of its nodes begins: set a later one, or leave it out"
    assert update_windows.past(config, NOW) == [f"nodeSets[0].update.window.start: {words}"] * is_told
