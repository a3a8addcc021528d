"""Clients of Slurm: slurmrestd, jobs, accounts, and the config dry run."""
