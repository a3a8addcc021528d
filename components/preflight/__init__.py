"""What is looked up in Kubernetes before anything is planned."""
