"""Configuration of what a cluster may have besides Slurm."""
