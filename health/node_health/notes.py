"""Writes what a node notes in its field Extra in Slurm (contract/node_notes.py)."""

from collections.abc import Iterable, Mapping

from contract.node_notes import FAILED, MOST_QUIET, QUIET


def failed(check: str, well: str, found: str) -> str:
    """Returns the note of a check that fails.

    Args:
        check: its name.
        well: time of the last run in which it did not fail, as of `date -u +%FT%TZ`; empty without one.
        found: time of the first run in which it failed.
    """
    return f"{FAILED}{check}, {f'well at {well}, ' if well else ''}found at {found}"


def quiet(jobs: Mapping[int, str]) -> str:
    """Returns the note of quiet jobs, empty without any: job → since when."""
    listed = sorted(jobs.items(), key=lambda job: (job[1], job[0]))[:MOST_QUIET]
    return QUIET + ", ".join(f"{job} since {since}" for job, since in listed) if listed else ""


def joined(parts: Iterable[str]) -> str:
    """Returns the whole note of its parts, of which some may be empty: a failure, quiet jobs, warnings."""
    return "; ".join(part for part in parts if part)
