"""Decisions about one node: what its record, its pod and its Kubernetes node say together."""
