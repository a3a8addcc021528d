"""Checks of the links between GPUs, by NVML."""
