"""Measurements of steps, batch jobs, arrays, and entries into the jail."""
