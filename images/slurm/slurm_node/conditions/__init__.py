"""A node's own conditions: probes, health, drains, notes for jobs and administrators."""
