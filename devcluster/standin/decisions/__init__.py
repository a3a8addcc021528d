"""Decisions without a cluster: what an object is, how it differs, and what that means."""
