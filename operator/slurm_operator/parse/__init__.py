"""Bodies of Kubernetes' objects, as its API writes them, turned into the plain values of state. Pure."""
