"""State that one pass of the operator observes, as plain values: the decisions take these and nothing else."""
