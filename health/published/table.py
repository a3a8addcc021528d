"""The table of all checks in docs/health.md."""

from pathlib import Path

from node_health import catalogue
from node_health.check import Applies, Check, Context

FILE = Path(__file__).parents[2] / "docs" / "health.md"
BEGIN, END = "<!-- checks -->\n", "<!-- end of checks -->\n"
HEAD = "| check | applies to | when | FAIL | WARNING | remedy |\n|---|---|---|---|---|---|\n"


def checks() -> list[Check]:
    """Returns the whole catalogue."""
    return catalogue.load(*Applies)


def table() -> str:
    """Returns the table, made of the checks."""
    return HEAD + "".join(_row(check) for check in checks())


def text(page: str | None = None) -> str:
    """Returns the page with the table in its place."""
    page = FILE.read_text() if page is None else page
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}{table()}{END}{rest.partition(END)[2]}"


def _row(check: Check) -> str:
    when = ", ".join(context for context in Context if context in check.contexts)
    action = f" ({check.action})" if check.action != "NONE" else ""
    cells = (f"`{check.name}`", check.applies, when, check.fails, check.warns, f"{check.remedy}{action}")
    return f"| {' | '.join(cells)} |\n"
