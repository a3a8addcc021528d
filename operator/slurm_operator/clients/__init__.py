"""Clients of slurmrestd, of the API server, of the operator's lease and of the config dry run."""
