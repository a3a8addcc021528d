"""slurmrestd on a small cluster, and calls of it."""

from __future__ import annotations

import json
import shlex
import time
from typing import Any

import jwt

from contract import names
from tests.image.small_cluster import SmallCluster

REST = """
SLURM_JWT=daemon SLURMRESTD_SECURITY=disable_unshare_files,disable_unshare_sysv \
    setpriv --reuid=64031 --regid=64031 --clear-groups /opt/slurm/sbin/slurmrestd -a rest_auth/jwt 127.0.0.1:6820 \
    >/run/slurmrestd.log 2>&1 &
"""
CALL = """
import sys, time, urllib.request
token, method, path, body = sys.argv[1:]
request = urllib.request.Request("http://127.0.0.1:6820/slurm/v0.0.45" + path, body.encode() or None, method=method)
request.add_header("X-SLURM-USER-TOKEN", token)
request.add_header("Content-Type", "application/json")
for left in reversed(range(50)):
    try:
        print(urllib.request.urlopen(request, timeout=30).read().decode())
        break
    except urllib.error.HTTPError as error:
        print(error.read().decode())
        break
    except urllib.error.URLError:
        if not left:
            raise
        time.sleep(0.2)  # slurmrestd tells nobody that it listens.
"""


class Rest:
    """slurmrestd beside the worker's slurmd."""

    def __init__(self, cluster: SmallCluster) -> None:
        self._cluster = cluster
        cluster.pod(REST)
        now = int(time.time())
        self._token = jwt.encode({"iat": now, "exp": now + 3600, "sun": names.SLURM_USER}, cluster.token_key, "HS256")

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        words = [self._token, method, path, json.dumps(body) if body else ""]
        answer = self._cluster.pod(shlex.join(["python3", "-c", CALL, *words]))
        assert answer.returncode == 0, answer.stderr
        found: dict[str, Any] = json.loads(answer.stdout)
        return found
