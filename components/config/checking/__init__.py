"""Finds all errors of a configuration at once, also in one that is partly wrong."""
