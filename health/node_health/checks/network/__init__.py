"""Checks of network interfaces, names and the controller."""
