"""Several checks share these sources. A run reads each source once, in one process; counters and known devices outlive runs."""
