"""Is this node fit for jobs? Run by Slurm in the worker pod, outside the jail; nothing in the jail has a say in it."""
