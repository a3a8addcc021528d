"""The operator of pulumi-slurm: it changes what depends on running jobs, and reports the state of a Slurm cluster."""
