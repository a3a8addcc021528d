"""Writes what a node notes in its field Extra in Slurm (contract/node_notes.py)."""

from collections.abc import Iterable, Mapping

from contract.node_notes import CHECKS, FAILED, FAST_SECONDS, MOST_CHECKS, MOST_QUIET, QUIET, SLOW


def failed(check: str, well: str, first_failed: str) -> str:
    """Returns the note of a check that fails.

    Args:
        check: its name.
        well: time of the last run in which it did not fail, as of `date -u +%FT%TZ`; empty without one.
        first_failed: time of the first run in which it failed.
    """
    return f"{FAILED}{check}, {f'well at {well}, ' if well else ''}found at {first_failed}"


def quiet(jobs: Mapping[int, str]) -> str:
    """Returns the note of quiet jobs, empty without any: job → since when."""
    listed = sorted(jobs.items(), key=lambda job: (job[1], job[0]))[:MOST_QUIET]
    return QUIET + ", ".join(f"{job} since {since}" for job, since in listed) if listed else ""


def checks(verdicts: Mapping[str, str], seconds: float, slowest: str) -> str:
    """Returns the note of checks that did not pass and of slow runs, empty without any.

    Args:
        verdicts: check → verdict, without those that passed.
        seconds: how long the longest run of late took.
        slowest: the check that took longest then.
    """
    parts = [f"{verdict} {check}" for check, verdict in verdicts.items()][:MOST_CHECKS]
    if seconds > FAST_SECONDS:
        parts.append(f"took {next((span for span in SLOW if seconds <= span), SLOW[-1])} s ({slowest})")
    return CHECKS + ", ".join(parts) if parts else ""


def joined(parts: Iterable[str]) -> str:
    """Returns the whole note of its parts, of which some may be empty: a failure, quiet jobs, checks, warnings."""
    return "; ".join(part for part in parts if part)
