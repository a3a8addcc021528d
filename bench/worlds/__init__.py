"""Surroundings in which the operator is measured: real Slurm without nodes, a real API server, and a played one."""
