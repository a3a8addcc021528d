"""Checks of the kernel: its log, processes, clock and limits."""
