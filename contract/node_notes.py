"""A node's field Extra in Slurm: what its own checks note there for administrators and for the operator.

First comes what programs read, then what checks warn of, in words that may quote others'. node_health/notes.py writes
it, and the operator reads it (slurm_operator/decide/nodes/notes.py).
"""

from typing import Final

from contract.reasons import PREFIX, WARNING

FAILED: Final = f"{PREFIX}failed "
"""Start of the note of a check that fails."""
QUIET: Final = f"{PREFIX}quiet "
"""Start of the note of jobs that have used no CPU for long, or whose heartbeat is old."""
CHECKS: Final = f"{PREFIX}checks "
"""Start of the note of checks that did not pass, such as `UNKNOWN clock, WARNING gpu power`.

After slow runs it ends with `took N s (CHECK)`, where N is one of SLOW, and the check the slowest one.
"""
BEGINNINGS: Final = (FAILED, QUIET, CHECKS, WARNING)
MOST_CHECKS: Final = 20
"""Checks that a node notes so, the first ones in the order of reports."""
FAST_SECONDS: Final = 2
SLOW: Final = (5, 10)
"""Seconds to which a run's time is rounded up, if it took more than FAST_SECONDS: each change is news to slurmctld."""
MOST_QUIET: Final = 20
"""Jobs that a node notes, those that are quiet for longest."""
HANGS: Final = f"{PREFIX}hangs "
"""Start of a job's AdminComment by the operator, after which `told by NODE` names who tells the job."""
