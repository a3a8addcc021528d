"""What several checks read together: each source is read once in a run, in one process."""
