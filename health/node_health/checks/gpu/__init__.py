"""Checks of GPUs, by NVML."""
