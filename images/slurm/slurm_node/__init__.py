"""Entry points of the slurm image."""
