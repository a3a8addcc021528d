"""A database server that is not ours: in a namespace of its own, with a user who may use two databases."""

from __future__ import annotations

import json
import urllib.parse
from typing import Any

NAMESPACE = "elsewhere"
HOST = f"database.{NAMESPACE}.svc.cluster.local"
USER, PASSWORD = "accounts", "p@s#s/w\"o r'd%"
LINE = "\n"  # The server takes one statement a line.
DATABASES = ("first", "another")

_START = rf"""
set -e
mariadb-install-db --no-defaults --auth-root-authentication-method=normal --datadir=/tmp/data \
    --user="$(id -un)" >/dev/null
cat > /tmp/users.sql <<'SQL'
CREATE USER '{USER}'@'%' IDENTIFIED BY '{PASSWORD.replace("'", "''")}';
{LINE.join(f"GRANT ALL ON {database}.* TO '{USER}'@'%';" for database in DATABASES)}
SQL
exec mariadbd --no-defaults --datadir=/tmp/data --socket=/tmp/socket --init-file=/tmp/users.sql --bind-address=0.0.0.0 \
    --innodb-snapshot-isolation=OFF --innodb-buffer-pool-size=32M
"""


def connection(database: str) -> str:
    """Return what to set as accounting.external.connection."""
    return f"mysql://{USER}:{urllib.parse.quote(PASSWORD, safe='')}@{HOST}:3306/{database}"


def start(slurm: Any) -> None:
    """Start the server; slurmdbd waits for it by itself."""
    image = slurm.get("statefulset", "slurm-database")["spec"]["template"]["spec"]["containers"][0]["image"]
    metadata = {"name": "database", "namespace": NAMESPACE, "labels": {"app": "database"}}
    container = {
        "name": "server",
        "image": image,
        "command": ["/bin/sh", "-c", _START],
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    pod = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }
    items = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"selector": {"app": "database"}, "ports": [{"port": 3306}]},
        },
    ]
    slurm.kubectl(
        "apply",
        "--namespace",
        NAMESPACE,
        "-f",
        "-",
        text=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}),
    ).ok()


def stop(slurm: Any) -> None:
    """Remove the server and its namespace."""
    slurm.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=false").ok()
