"""`python3 -m devcluster.suite.renew`: writes tests/seconds.json anew, from the reports of the last run of `make test`.

A file that was not run keeps its number. The first e2e file of each worker includes the start of its cluster.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from devcluster.machine.bootstrap import CHECKOUT
from devcluster.suite import order
from devcluster.suite.tally import Tally


def renewed(former: Mapping[str, float], seconds: Mapping[str, float], checkout: Path) -> dict[str, int]:
    """Return the seconds to note: of files that are there and take longer than one that is not noted.

    Args:
        former: as noted before.
        seconds: as measured now.
        checkout: where the files are.
    """
    known = {**former, **seconds}
    return {
        file: round(lasts)
        for file, lasts in sorted(known.items())
        if lasts > order.USUAL_SECONDS and (checkout / file).is_file()
    }


def main(arguments: list[str]) -> None:
    """Read the reports in a folder, build/tests unless one is named. Later reports of a test win."""
    folder = Path(arguments[0]) if arguments else CHECKOUT / "build" / "tests"
    reports, tally = sorted(folder.glob("*.xml")), Tally()
    if not reports:
        sys.exit(f"{folder} has no report: run make test first")
    for report in reports:
        tally.add_report(report)
    noted = renewed(order.measured(), tally.by_file(), CHECKOUT)
    order.MEASURED.write_text(f"{json.dumps(noted, indent=2)}\n")
    print(f"{order.MEASURED.relative_to(CHECKOUT)}: {len(noted)} files")


if __name__ == "__main__":
    main(sys.argv[1:])
