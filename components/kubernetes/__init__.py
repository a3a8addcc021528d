"""What every object of the program is made from: manifests, components, the connection to Kubernetes."""
