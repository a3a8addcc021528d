"""Texts of Slurm's files, made of the configuration: pure functions."""
