"""Pulumi stacks of a checkout, and the Kubernetes plugin that they get."""
