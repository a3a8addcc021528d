"""The JSON schema of what a long check's job reports, docs/long-check-report.schema.json."""

import json
from pathlib import Path

from contract import check_reports

FILE = Path(__file__).parents[2] / "docs" / "long-check-report.schema.json"


def text() -> str:
    """Returns the content of docs/long-check-report.schema.json."""
    return json.dumps(check_reports.SCHEMA, indent=2) + "\n"
