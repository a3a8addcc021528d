"""Several checks share these. A run reads each source once, in one process; counters and known devices outlive runs."""
