"""Checks of what Slurm itself needs on a node."""
