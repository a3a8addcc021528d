"""Promises about windows for updates before anything is planned: what is past is said, and a date may be far away."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
import yaml

from components.config import parse
from components.preflight import update_windows
from contract import policies
from tests.unit.samples import changed

CRD = Path(__file__).parents[2] / "operator/crds/nodesets.yaml"
NOW = datetime.datetime(2026, 12, 5, 7, 0, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("start", "is_told"),
    [("2026-12-05T03:00Z", True), ("2026-12-05T03:01Z", False), ("2027-01-01T00:00Z", False), ("Sat 03:00", False)],
)
def test_a_window_that_is_past_is_told_and_stops_nothing(start: str, is_told: bool) -> None:
    config = parse(changed("nodeSets.0.update.window", {"start": start, "duration": "4h"}))
    words = f"{start} is past, so that no update of its nodes begins: set a later one, or leave it out"
    assert update_windows.past(config, NOW) == [f"nodeSets[0].update.window.start: {words}"] * is_told


def test_the_resource_takes_the_windows_that_the_program_writes() -> None:
    body = yaml.safe_load(CRD.read_text())
    spec = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    window = spec["update"]["properties"]["window"]
    assert window["properties"]["start"]["pattern"] == f"^({policies.WINDOW_START})$"
    assert window["properties"]["durationSeconds"]["minimum"] == policies.LEAST_WINDOW_SECONDS
    (rule,) = window["x-kubernetes-validations"]
    assert rule["rule"] == f"self.start.endsWith('Z') || self.durationSeconds <= {policies.WEEK_SECONDS}"
