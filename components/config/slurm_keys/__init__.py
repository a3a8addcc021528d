"""Keys of Slurm's files: whose each one is, and the values of those that this program chooses."""
