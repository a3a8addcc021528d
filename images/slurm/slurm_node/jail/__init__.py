"""The node's view of the jail: its mounts, its NVIDIA driver, its door to Slurm's authentication."""
