"""Clients of the API server and of the operator's lease; those of Slurm are in slurm/."""
