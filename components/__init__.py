"""Pulumi components that declare a Slurm cluster on Kubernetes."""
