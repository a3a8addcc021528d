"""Drift of declared objects: which of them a round restores, and how one is restored."""
