"""Commands for users in the jail, beside Slurm's own in /opt/slurm/bin. The jail's Python runs them, 3.10 or newer."""
