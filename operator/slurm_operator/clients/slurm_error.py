"""Errors of requests to Slurm."""

from __future__ import annotations

import enum


class Trouble(enum.StrEnum):
    """The reason of a failed request to Slurm, as a condition names it."""

    UNREACHABLE = "RestUnreachable"
    """slurmrestd refused the connection or did not answer in time."""
    UNTRUSTED = "RestUntrusted"
    """slurmrestd's certificate is not one that we trust, so that nothing was said to it."""
    CONTROLLER_AWAY = "SlurmctldUnreachable"
    """slurmrestd answers, slurmctld does not."""
    FORBIDDEN = "RestUnauthorized"
    """Our token was not accepted."""
    UNUSABLE = "RestAnswerUnusable"
    """The answer is not what the API promises."""
    REFUSED = "SlurmRefused"
    """Slurm answered with errors."""


class SlurmError(Exception):
    """Slurm could not be seen or changed."""

    def __init__(self, reason: Trouble, message: str, numbers: frozenset[int] = frozenset()) -> None:
        super().__init__(message)
        self.reason = reason
        self.numbers = numbers
        """Slurm's own error numbers (slurm_errno.h), if it gave any."""
