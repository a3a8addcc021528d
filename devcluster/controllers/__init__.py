"""Controllers of the embedded Kubernetes: storage, load balancer, NetworkPolicies."""
