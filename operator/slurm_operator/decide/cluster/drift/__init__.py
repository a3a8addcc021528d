"""Drift of declared objects: what a round restores, how an object is restored, and who owns its fields."""
