"""What a node says of itself: probes, health, drains, notes for jobs and administrators."""
