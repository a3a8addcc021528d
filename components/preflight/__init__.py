"""Checks that ask Kubernetes before the plan."""
