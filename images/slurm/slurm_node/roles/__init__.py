"""What each container of a Slurm pod runs: one module for each role of `python3 -m slurm_node ROLE`."""
