"""Fakes of hardware: a machine's files below one root, and NVML. They are all named as fakes."""
