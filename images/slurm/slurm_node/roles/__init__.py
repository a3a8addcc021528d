"""Programs of the containers in Slurm's pods: one module for each role of `python3 -m slurm_node ROLE`."""
