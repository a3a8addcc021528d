"""slurmrestd on a small cluster, and calls of it."""

from __future__ import annotations

import asyncio
import json
import shlex
import time
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import jwt
from slurm_node.roles import rest
from slurm_operator.clients.slurm import slurmrestd, slurmrestd_answers

from contract import names
from tests.image.small_cluster import SmallCluster

T = TypeVar("T")
REST = f"""
{" ".join(f"{key}={value}" for key, value in rest.ENVIRONMENT.items())} \
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


class Calls(slurmrestd.SlurmRest):
    """The operator's calls, through the slurmrestd of a small cluster."""

    def __init__(self, rest: Rest) -> None:
        super().__init__("http://127.0.0.1:6820", Path("/none"))
        self._rest = rest

    async def _call(
        self,
        call: str,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
        seconds: float = 0,
    ) -> bytearray | None:
        assert not params, "these are not passed on"
        answer = json.dumps(self._rest.call(method, path, body)).encode()
        return slurmrestd_answers.checked(call, 200, bytearray(answer))


def made(work: Awaitable[T]) -> T:
    """Make a call of the operator's."""

    async def run() -> T:
        return await work

    return asyncio.run(run())
