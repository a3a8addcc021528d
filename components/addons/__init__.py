"""Parts of a cluster besides Slurm: other makers' operators, certificates, metrics, LDAP users."""
