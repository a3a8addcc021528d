"""Decides whether an object is ready, and explains why it is not."""
