"""What the operator is measured in: real Slurm without nodes, a real API server, and one that this process plays."""
