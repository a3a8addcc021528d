"""Keys of slurm.conf's smaller lines, gres.conf and cgroup.conf, and the values that this program chooses of Slurm's."""
