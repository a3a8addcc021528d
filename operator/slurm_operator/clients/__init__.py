"""What the operator speaks to: slurmrestd, the API server, its lease, the config dry run."""
