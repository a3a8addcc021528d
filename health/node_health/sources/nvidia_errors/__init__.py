"""Numbers of errors that NVIDIA's drivers write into the kernel's log."""
