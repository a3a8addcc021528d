"""Slurm's intervals, shorter for tests that wait for them."""

from __future__ import annotations

# Slurm starts such jobs in its backfill cycles alone.
OFTEN = {"options": {"SchedulerParameters": "bf_interval=1"}}
