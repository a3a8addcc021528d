"""Passes: over a cluster, its node sets and its configuration; and drift of declared objects, on its own."""
