"""Checks whether this node is fit for jobs. Slurm runs it in the worker pod, outside the jail and its influence."""
