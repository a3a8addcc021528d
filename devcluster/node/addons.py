"""Objects of a new node: DNS, the API's own Service endpoints, the default storage class."""

from __future__ import annotations

from typing import Any

from devcluster.node.plan.facts import CLUSTER_DOMAIN, DNS_ADDRESS

DNS_IMAGE = "localhost/pulumi-slurm-coredns:1"
STORAGE_CLASS = "local-rwx"
PROVISIONER = "devcluster.pulumi-slurm.dev/folder"
DNS_LABELS = {"k8s-app": "kube-dns"}


def manifests(api_address: str, forwards: bool) -> list[dict[str, Any]]:
    """Return all objects.

    Args:
        api_address: Where pods reach the API server behind the `kubernetes` Service.
        forwards: Whether there is a resolver for names outside the cluster.
    """
    return [_api_endpoints(api_address), _storage_class(), *_dns(forwards)]


def corefile(forwards: bool) -> str:
    """Return CoreDNS's configuration."""
    forward = "\n    forward . /etc/resolv.conf" if forwards else ""
    return f"""\
.:5353 {{
    errors
    health :8080 {{
        lameduck 1s
    }}
    ready :8181
    kubernetes {CLUSTER_DOMAIN} in-addr.arpa ip6.arpa {{
        ttl 5
    }}{forward}
    cache 5
    loop
    reload
}}
"""


def _api_endpoints(address: str) -> dict[str, Any]:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": "kubernetes"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}],
    }


def _storage_class() -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": STORAGE_CLASS,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    }


def _dns_container() -> dict[str, Any]:
    return {
        "name": "coredns",
        "image": DNS_IMAGE,
        "imagePullPolicy": "Never",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "ports": [
            {"name": "dns", "containerPort": 5353, "protocol": "UDP"},
            {"name": "dns-tcp", "containerPort": 5353, "protocol": "TCP"},
        ],
        "resources": {"requests": {"cpu": "10m", "memory": "30Mi"}, "limits": {"memory": "170Mi"}},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
        "livenessProbe": {"httpGet": {"path": "/health", "port": 8080}, "periodSeconds": 10},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns", "readOnly": True}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def _dns_rights(account: dict[str, str]) -> list[dict[str, Any]]:
    """Return the role of a service account that reads what has a name."""
    reads = [
        {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "coredns"}
    return [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "coredns"},
            "rules": reads,
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "coredns"},
            "roleRef": role,
            "subjects": [{"kind": "ServiceAccount", **account}],
        },
    ]


def _dns(forwards: bool) -> list[dict[str, Any]]:
    metadata = {"name": "coredns", "namespace": "kube-system"}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        *_dns_rights(metadata),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"Corefile": corefile(forwards)}},
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {**metadata, "labels": DNS_LABELS},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": DNS_LABELS},
                "template": {
                    "metadata": {"labels": DNS_LABELS},
                    "spec": {
                        "serviceAccountName": "coredns",
                        "priorityClassName": "system-cluster-critical",
                        # The node's resolv.conf, to ask for names outside the cluster.
                        "dnsPolicy": "Default",
                        "containers": [_dns_container()],
                        "volumes": [{"name": "config", "configMap": {"name": "coredns"}}],
                    },
                },
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": DNS_LABELS},
            "spec": {
                "clusterIP": DNS_ADDRESS,
                "selector": DNS_LABELS,
                "ports": [
                    {"name": "dns", "port": 53, "targetPort": "dns", "protocol": "UDP"},
                    {"name": "dns-tcp", "port": 53, "targetPort": "dns-tcp", "protocol": "TCP"},
                ],
            },
        },
    ]
