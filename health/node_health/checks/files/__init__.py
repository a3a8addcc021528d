"""Checks of file systems and local storage."""
