"""What a cluster may have besides Slurm: other makers' operators, certificates, metrics, a directory."""
