"""Checks of InfiniBand ports, by sysfs."""
