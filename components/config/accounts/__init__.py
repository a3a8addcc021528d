"""QOS, accounts and users' associations, which the operator brings to slurmdbd."""
