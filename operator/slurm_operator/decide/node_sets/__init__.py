"""Decisions about a node set: its size, updates, repairs, records and windows."""
