"""The node's view of the jail: its mounts, its driver, its door to Slurm."""
