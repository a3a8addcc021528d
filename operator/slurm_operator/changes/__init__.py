"""Changes of Slurm's records and Kubernetes' objects, each only if its preconditions hold at that moment."""
