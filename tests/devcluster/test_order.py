"""The order of test files: workers that take whole files end together, and rough files come after careful ones."""

from __future__ import annotations

import pytest

from devcluster.machine.bootstrap import CHECKOUT
from devcluster.suite import order, testing
from devcluster.suite.testing import Phase

BY_FILE = [phase for phase in testing.PHASES if phase.by_file and len(phase.folders) == 1]


def files(phase: Phase) -> list[str]:
    found = [file for folder in phase.folders for file in sorted(CHECKOUT.glob(f"{folder}/test_*.py"))]
    return [file.relative_to(CHECKOUT).as_posix() for file in found]


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


def test_every_measured_file_is_there_under_its_name() -> None:
    gone = [file for file in order.measured() if not (CHECKOUT / file).exists()]
    assert not gone
    assert not [file for file in order.ROUGH if not (CHECKOUT / file).exists()]


def test_rough_files_come_after_long_ones_and_short_ones_last() -> None:
    rough = "tests/e2e/test_n_faults.py"
    assert rough in order.ROUGH
    seconds = {rough: 300.0, "long": 200.0, "longer": 250.0, "short": 59.0}
    assert ordered(["short", rough, "unknown", "long", "longer"], seconds) == [
        *("longer", "long", rough, "short", "unknown"),
    ]


def test_the_budgets_of_the_longest_lanes_are_within_that_of_all_tests() -> None:
    before = max(sum(phase.minutes for phase in lane) for lane in testing.LANES)
    beside = (testing.UNIT_AND_NATIVE, testing.A_JOBS_LIFE_ON_V2, testing.THE_GUEST_ITSELF, testing.DEV_CLUSTER)
    with_clusters = max(testing.E2E.minutes, sum(phase.minutes for phase in beside))
    assert before + with_clusters <= testing.ALL_MINUTES
