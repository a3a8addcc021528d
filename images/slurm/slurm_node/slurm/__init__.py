"""Modules for Slurm's daemons on a node: configuration, credentials, registration, plugins."""
