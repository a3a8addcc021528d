"""The embedded single-node Kubernetes on which this project is developed and tested."""
