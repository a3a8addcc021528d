"""Sources that several checks share: a run reads each of them once, in one process."""
