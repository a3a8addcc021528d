"""Slurm itself: its daemons, its nodes, its files."""
