"""Configuration of the parts besides Slurm."""
