"""Writes the files anew: `PYTHONPATH=.:health .venv/bin/python -m published`."""

from node_health.thresholds import FILE

from published import reports, schema, table, thresholds


def main() -> None:
    """Writes them; the page last, since its table is made of checks that read thresholds."""
    FILE.write_text(thresholds.text())
    schema.FILE.write_text(schema.text())
    reports.FILE.write_text(reports.text())
    table.FILE.write_text(table.text())


if __name__ == "__main__":
    main()
