"""etcd, kube-apiserver, their certificates and kubeconfigs."""
