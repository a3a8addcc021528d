"""A real Prometheus, out of Debian's package, in a pod of the dev cluster."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from devcluster.machine.bootstrap import cache_folder

POD = "prometheus"
PORT = 9090


def program(folder: Path) -> Path:
    """Puts Debian's Prometheus into a folder that pods can mount, without installing it: a service would start."""
    kept = cache_folder() / "prometheus" / "prometheus"
    if not kept.exists():
        with tempfile.TemporaryDirectory() as scratch:
            download = ["apt-get", "download", "-o", "APT::Sandbox::User=root", "prometheus"]
            done = subprocess.run(download, cwd=scratch, capture_output=True, text=True, timeout=120, check=False)
            if done.returncode != 0:
                subprocess.run(["apt-get", "update"], capture_output=True, timeout=120, check=True)
                subprocess.run(download, cwd=scratch, capture_output=True, timeout=120, check=True)
            (package,) = Path(scratch).glob("*.deb")
            subprocess.run(["dpkg-deb", "-x", str(package), scratch], capture_output=True, timeout=60, check=True)
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(Path(scratch, "usr/bin/prometheus"), kept.with_suffix(".part"))
            kept.with_suffix(".part").rename(kept)
    target = folder / "prometheus"
    target.mkdir(parents=True, exist_ok=True)
    if not (target / "prometheus").exists():  # A running one is not to be written.
        shutil.copy2(kept, target / "prometheus")
    return target


def by_annotations(slurm: Any) -> list[dict[str, Any]]:
    """A job for each Service that asks by its annotations to be scraped.

    Debian builds Prometheus without discovery in Kubernetes, so what its usual relabelling does is done here.
    """
    prefix = "prometheus.io/"
    slices = slurm.get("endpointslices")["items"]
    jobs = []
    for service in slurm.get("services")["items"]:
        name, told = service["metadata"]["name"], service["metadata"].get("annotations", {})
        if told.get(f"{prefix}scrape") != "true":
            continue
        addresses = [
            address
            for each in slices
            if each["metadata"]["labels"]["kubernetes.io/service-name"] == name
            for endpoint in each["endpoints"] or []
            if not endpoint["conditions"].get("terminating")
            for address in endpoint["addresses"]
        ]
        port = told[f"{prefix}port"]
        jobs.append(_job(f"annotations/{name}", told[f"{prefix}path"], told[f"{prefix}scheme"], addresses, port))
    return jobs


def by_pod_monitor(slurm: Any, monitor: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A job for each endpoint of a PodMonitor, as the Prometheus operator makes them."""
    spec = monitor["spec"]
    wanted = spec["selector"]["matchLabels"].items()
    staying = [pod for pod in slurm.get("pods")["items"] if "deletionTimestamp" not in pod["metadata"]]
    pods = [pod for pod in staying if wanted <= pod["metadata"]["labels"].items()]
    jobs = []
    for number, endpoint in enumerate(spec["podMetricsEndpoints"]):
        (port,) = {
            str(port["containerPort"])
            for pod in pods
            for container in pod["spec"]["containers"]
            for port in container.get("ports", [])
            if port["name"] == endpoint["port"]
        }
        addresses = [pod["status"]["podIP"] for pod in pods]
        name = f"podMonitor/{monitor['metadata']['name']}/{number}"
        jobs.append(_job(name, endpoint["path"], endpoint["scheme"], addresses, port))
    return jobs


def _job(name: str, path: str, scheme: str, addresses: list[str], port: str) -> dict[str, Any]:
    targets = [{"targets": [f"{address}:{port}" for address in addresses]}]
    return {"job_name": name, "metrics_path": path, "scheme": scheme, "static_configs": targets}


def objects(namespace: str, image: str, folder: Path, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A namespace, the configuration of a Prometheus, and its pod."""
    metadata = {"name": POD, "namespace": namespace}
    config = {"global": {"scrape_interval": "2s", "scrape_timeout": "2s"}, "scrape_configs": jobs}
    container = {
        "name": POD,
        "image": image,
        "command": ["/program/prometheus", "--config.file=/config/prometheus.yml", "--storage.tsdb.path=/data"],
        "volumeMounts": [
            {"name": "program", "mountPath": "/program", "readOnly": True},
            {"name": "config", "mountPath": "/config", "readOnly": True},
            {"name": "data", "mountPath": "/data"},
        ],
        "readinessProbe": {"httpGet": {"path": "/-/ready", "port": PORT}, "periodSeconds": 1},
    }
    content = {"prometheus.yml": yaml.safe_dump(config)}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": content},
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {
                "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": 1,
                "securityContext": {"runAsUser": 65534, "runAsGroup": 65534, "fsGroup": 65534},
                "containers": [container],
                "volumes": [
                    {"name": "program", "hostPath": {"path": str(folder)}},
                    {"name": "config", "configMap": {"name": POD}},
                    {"name": "data", "emptyDir": {}},
                ],
            },
        },
    ]


@dataclass(frozen=True)
class Prometheus:
    """A running one, asked from inside its own pod."""

    slurm: Any
    namespace: str

    def _api(self, path: str) -> Any:
        url = f"http://127.0.0.1:{PORT}/api/v1/{path}"
        ask = f"import urllib.request as u; print(u.urlopen('{url}', timeout=5).read().decode())"
        done = self.slurm.kubectl("exec", "-n", self.namespace, POD, "--", "python3", "-c", ask)
        return json.loads(done.stdout)["data"] if done.status == 0 else None

    def values(self, query: str) -> list[tuple[dict[str, str], float]]:
        """Labels and value of each series that a query finds now."""
        data = self._api("query?" + urllib.parse.urlencode({"query": query}))
        return [(each["metric"], float(each["value"][1])) for each in data["result"]] if data else []

    def targets(self) -> list[dict[str, Any]]:
        """Return what it scrapes."""
        data = self._api("targets?state=active")
        return data["activeTargets"] if data else []
