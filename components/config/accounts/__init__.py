"""QOS, accounts and people's associations, which the operator brings to slurmdbd."""
