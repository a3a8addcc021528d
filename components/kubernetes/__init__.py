"""Building blocks of every object: manifests, components, the connection to Kubernetes."""
