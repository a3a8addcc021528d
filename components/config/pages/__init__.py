"""Pages of docs/ that are made from the models: the reference, and who sets each of Slurm's keys."""
