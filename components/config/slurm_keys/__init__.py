"""Keys of slurm.conf's smaller lines, gres.conf and cgroup.conf, and the values of keys that this program chooses."""
