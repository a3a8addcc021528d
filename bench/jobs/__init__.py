"""What a step, a batch job, an array and an entry into the jail take."""
