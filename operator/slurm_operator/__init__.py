"""The operator of pulumi-slurm: moves what depends on running jobs, and says truthfully how a Slurm cluster is."""
