"""Errors of requests to Slurm."""

from __future__ import annotations

import enum

from contract.conditions import Reason


class Trouble(enum.StrEnum):
    """The reason of a failed request to Slurm, as a condition names it."""

    UNREACHABLE = Reason.REST_UNREACHABLE
    """slurmrestd refused the connection or did not answer in time."""
    UNTRUSTED = Reason.REST_UNTRUSTED
    """slurmrestd's certificate is not one that we trust, so that nothing was said to it."""
    CONTROLLER_AWAY = Reason.SLURMCTLD_UNREACHABLE
    """slurmrestd answers, slurmctld does not."""
    FORBIDDEN = Reason.REST_UNAUTHORIZED
    """Our token was not accepted."""
    UNUSABLE = Reason.REST_ANSWER_UNUSABLE
    """The answer is not what the API promises."""
    REFUSED = Reason.SLURM_REFUSED
    """Slurm answered with errors."""


class SlurmError(Exception):
    """Slurm could not be seen or changed."""

    def __init__(self, reason: Trouble, message: str, numbers: frozenset[int] = frozenset()) -> None:
        super().__init__(message)
        self.reason = reason
        self.numbers = numbers
        """Slurm's own error numbers (slurm_errno.h), if it gave any."""
