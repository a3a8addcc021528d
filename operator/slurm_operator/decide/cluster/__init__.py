"""Decisions about the cluster: configuration, drift of objects, daemons, accounting and status."""
