"""Roots of the jail on the shared volume: how they are copied, noted, compared and deleted."""
