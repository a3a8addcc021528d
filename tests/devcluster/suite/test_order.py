"""The order of test files: workers that take whole files end together, and rough files come after careful ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from devcluster.machine.bootstrap import CHECKOUT
from devcluster.suite import order, renew, testing
from devcluster.suite.phases import BESIDE_CLUSTERS, DEV_CLUSTER, IMAGE, LATER_IMAGE, WITH_CLUSTERS, Phase

BY_FILE = [*WITH_CLUSTERS, *LATER_IMAGE, DEV_CLUSTER]


def files(phase: Phase) -> list[str]:
    found = [file for folder in phase.folders for file in sorted(CHECKOUT.glob(f"{folder}/**/test_*.py"))]
    names = [file.relative_to(CHECKOUT).as_posix() for file in found]
    return [name for name in names if not any(Path(name).is_relative_to(path) for path in phase.without)]


def ordered(names: list[str], seconds: dict[str, float]) -> list[str]:
    return sorted(names, key=lambda file: order.rank(file, seconds))


def ends(names: list[str], seconds: dict[str, float], workers: int) -> list[float]:
    """Return the end of each worker that takes the next file as soon as it is free."""
    busy_until = [0.0] * workers
    for file in names:
        worker = busy_until.index(min(busy_until))
        busy_until[worker] += seconds.get(file, order.USUAL_SECONDS)
    return busy_until


@pytest.mark.parametrize("phase", BY_FILE, ids=lambda phase: phase.name)
def test_workers_end_within_a_minute_of_each_other(phase: Phase) -> None:
    seconds = order.measured()
    ended = ends(ordered(files(phase), seconds), seconds, phase.workers)
    assert max(ended) - min(ended) <= order.SHORT_SECONDS, ended


def test_the_parts_of_image_have_each_of_its_files_once() -> None:
    (first,) = (phase for phase in WITH_CLUSTERS if phase.name == IMAGE.name)
    parts = [file for part in (first, *LATER_IMAGE) for file in files(part)]
    assert sorted(parts) == sorted(files(IMAGE))


def test_every_measured_file_is_there_under_its_name() -> None:
    gone = [file for file in order.measured() if not (CHECKOUT / file).exists()]
    assert not gone
    assert not [file for file in order.ROUGH if not (CHECKOUT / file).exists()]


def test_a_renewed_order_has_what_was_measured_and_no_short_or_lost_file(tmp_path: Path) -> None:
    for name in ("kept", "slower", "short"):
        (tmp_path / name).touch()
    former = {"kept": 50, "slower": 20, "short": 40, "lost": 70}
    assert renew.renewed(former, {"slower": 30.4, "short": 9.9}, tmp_path) == {"kept": 50, "slower": 30}


def test_rough_files_come_after_long_ones_and_short_ones_last() -> None:
    rough = "tests/e2e/operator/test_faults.py"
    assert rough in order.ROUGH
    seconds = {rough: 300.0, "long": 200.0, "longer": 250.0, "short": 59.0}
    assert ordered(["short", rough, "unknown", "long", "longer"], seconds) == [
        *("longer", "long", rough, "short", "unknown"),
    ]


@pytest.mark.parametrize("lane", [WITH_CLUSTERS, BESIDE_CLUSTERS])
def test_the_budgets_of_a_lane_are_within_that_of_all_tests(lane: tuple[Phase, ...]) -> None:
    assert sum(phase.minutes for phase in lane) <= testing.ALL_MINUTES


def test_the_budgets_of_both_lanes_and_of_what_the_free_one_runs_are_within_twice_that_of_all_tests() -> None:
    every = (*WITH_CLUSTERS, *BESIDE_CLUSTERS, *LATER_IMAGE)
    assert sum(phase.minutes for phase in every) <= 2 * testing.ALL_MINUTES
