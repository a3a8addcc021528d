"""Checks of CPUs."""
