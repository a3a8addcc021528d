"""What Slurm's daemons need on a node: configuration, credentials, registration, plugins."""
