"""Runs slurmctld and slurmrestd of the slurm image, with nodes without slurmd, so real Slurm answers the operator.

The REST API makes nodes of state EXTERNAL in slurmctld (slurm.conf(5)). They are idle without a daemon, and slurmctld
never pings them. So thousands only cost their records.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import httpx
import jwt
from slurm_node.roles import rest

from components.config import parse
from components.slurm.conf import slurm_conf
from devcluster.apiserver.control_plane import free_ports
from tests.unit.samples import SMALL, changed

_API = "/slurm/v0.0.45"
_USER = 64030
_ENTRY = "/usr/bin/python3 -m slurm_node controller"
_PATH = "/opt/slurm/bin:/opt/slurm/sbin:/usr/sbin:/usr/bin:/sbin:/bin"

# A slurmd takes its name from the host name.
_REGISTER = """
register() {
    install -m 600 /run/secrets/slurm/slurm.key /run/slurmd.key
    export SLURM_SACK_KEY=/run/slurmd.key
    mount -t tmpfs spool /var/spool/slurmd
    for number in $(seq 0 $(($2 - 1))); do
        hostname "$1-$number"
        slurmd -D -Z -f /etc/slurm/slurm.conf --conf "CPUs=8 RealMemory=1000 Feature=$1" >/run/slurmd.log 2>&1 &
        for _ in $(seq 100); do
            scontrol show node "$1-$number" 2>/dev/null | grep -q State=IDLE && break
            sleep 0.1 # slurmctld tells nobody that a node registered
        done
        kill -9 $!
    done
}
"""

# As in the image's pods. The shell stays root, since a process that changes its user outlives its parent.
_PODS = """
set -e
mount --bind "$IMAGE" "$IMAGE"
for folder in run tmp var/spool/slurmctld; do mount -t tmpfs "$folder" "$IMAGE/$folder"; done
mount --rbind /dev "$IMAGE/dev"
mount -t proc proc "$IMAGE/proc"
mount --bind "$CONFIG" "$IMAGE/etc/slurm"
mkdir -p "$IMAGE/run/secrets" "$IMAGE/run/slurmctld"
cp -r "$KEYS" "$IMAGE/run/secrets/slurm"
chown -R $USER:$USER "$IMAGE/run/secrets/slurm" "$IMAGE/run/slurmctld" "$IMAGE/var/spool/slurmctld"
as() { chroot "$IMAGE" setpriv --reuid="$1" --regid="$1" --clear-groups env -i PATH="$INSIDE" $2; }
as $USER "$CONTROLLER" &
as 65534 "$SETTINGS /opt/slurm/sbin/slurmrestd -a rest_auth/jwt $REST" &
wait
"""


class RealSlurm:
    """The two daemons on free ports of this machine. The end of the context ends them.

    Args:
        image: the slurm image's root.
        folder: for configuration, keys and log.
        key: signs tokens (HS256).
        options: further lines of slurm.conf.
        base: the configuration without its accounting.
    """

    def __init__(
        self, image: Path, folder: Path, key: bytes, options: str = "", base: Mapping[str, Any] = SMALL
    ) -> None:
        self._image = str(image)
        self._key, self._log = key, folder / "slurm.log"
        port, rest_port = free_ports(2)
        self.url = f"http://127.0.0.1:{rest_port}"
        self.files = _configuration(port, base)
        self.files["slurm.conf"] += options
        for name, contents in (("config", {**self.files}), ("keys", {"slurm.key": os.urandom(64), "jwt.key": key})):
            (folder / name).mkdir(parents=True)
            for file, content in contents.items():
                (folder / name / file).write_bytes(content if isinstance(content, bytes) else content.encode())
        given = {
            "IMAGE": str(image), "CONFIG": str(folder / "config"), "KEYS": str(folder / "keys"), "USER": str(_USER),
            "INSIDE": _PATH, "CONTROLLER": _ENTRY, "REST": self.url.removeprefix("http://"),
            "SETTINGS": " ".join(map("=".join, rest.ENVIRONMENT.items())), "PATH": os.environ["PATH"],
        }  # fmt: skip
        apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen([*apart, "sh", "-c", _PODS], env=given, stdout=log, stderr=log)

    def __enter__(self) -> Self:
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def make_nodes(self, node_set: str, count: int) -> None:
        """Make the idle nodes <set>-0 to <set>-<count - 1>."""
        names = f"{node_set}-[0-{count - 1}]"
        conf = f"NodeName={names} CPUs=8 RealMemory=1000 Feature={node_set} State=EXTERNAL"
        self._call("POST", "/new/node/", {"node_conf": conf})

    def register_nodes(self, node_set: str, count: int) -> None:
        """Register nodes <set>-0 … by slurmds that end at once: slurmctld keeps the nodes for SlurmdTimeout."""
        asked = f"{_REGISTER}register {node_set} {count}"
        self._run(["nsenter", "-t", self._first(), "-m", "-p", "unshare", "--uts", "--mount"], asked)

    def drain(self, node: str, reason: str) -> None:
        """Drain a node as root, like health checks."""
        self._call("POST", f"/node/{node}", {"state": ["DRAIN"], "reason": reason})

    def undrain(self, node: str) -> None:
        """Lift a drain."""
        self._call("POST", f"/node/{node}", {"state": ["UNDRAIN"]})

    def submit(self, count: int, name: str) -> None:
        """Submit that many held jobs, each with a record of its own."""
        job = {"name": name, "partition": "main", "hold": True, "current_working_directory": "/"}
        body = {"script": "#!/bin/sh\n", "job": {**job, "environment": ["PATH=/bin"]}}
        with httpx.Client(timeout=60, trust_env=False) as client, ThreadPoolExecutor(8) as threads:
            for _ in threads.map(lambda _: self._call("POST", "/job/submit", body, client), range(count)):
                pass

    def memory(self, daemon: str) -> tuple[float, float]:
        """Return the present and the largest resident memory of slurmctld or slurmrestd, in MiB."""
        status = (self._daemon(daemon) / "status").read_text()
        now, most = (int(re.findall(rf"{key}:\s+(\d+)", status)[0]) / 1024 for key in ("VmRSS", "VmHWM"))
        return now, most

    def forget_peaks(self) -> None:
        """Reset a daemon's largest resident memory (proc(5), clear_refs)."""
        for daemon in ("slurmctld", "slurmrestd"):
            (self._daemon(daemon) / "clear_refs").write_text("5")

    def _daemon(self, name: str) -> Path:
        below, daemons = [str(self._process.pid)], []
        while below:
            process = Path("/proc", below.pop())
            below += (process / "task" / process.name / "children").read_text().split()
            daemons += [process] if (process / "comm").read_text().strip() == name else []
        return daemons[0]

    def command(self, line: str) -> str:
        """Run a line of shell with Slurm's commands beside the daemons, and return its output."""
        return self._run(["nsenter", "-t", self._first(), "-m", "-p"], line)

    def _first(self) -> str:
        """Return the id of the first process in the daemons' namespaces."""
        return Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()[0]

    def _run(self, inside: list[str], line: str) -> str:
        chroot = ["chroot", self._image, "env", "-i", f"PATH={_PATH}", "sh", "-c", line]
        done = subprocess.run([*inside, *chroot], capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise RuntimeError(f"{line}: {done.stderr[-1000:]}")
        return done.stdout

    def _wait(self) -> None:
        end = time.monotonic() + 60
        while True:
            try:
                self._call("GET", "/ping/", None)
                return
            except (httpx.HTTPError, RuntimeError) as error:
                if time.monotonic() > end or self._process.poll() is not None:
                    raise RuntimeError(
                        f"slurmctld does not answer: {error}: {self._log.read_text()[-2000:]}"
                    ) from error
                time.sleep(0.2)  # Slurm does not report when it is ready.

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None, client: httpx.Client | None = None) -> None:
        now = int(time.time())
        token = jwt.encode({"iat": now - 5, "exp": now + 60, "sun": "root"}, self._key, algorithm="HS256")
        headers = {"X-SLURM-USER-TOKEN": token}
        asked = client or httpx.Client(timeout=30, trust_env=False)
        answer = asked.request(method, self.url + _API + path, json=body, headers=headers)
        if answer.is_error or answer.json().get("errors"):
            raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text[:1000]}")


def _configuration(port: int, base: Mapping[str, Any]) -> dict[str, str]:
    """Return the program's rendered files, changed for this machine.

    slurmctld listens on this machine, no health check runs, and root may have jobs. Root is the only user that this
    machine and the image both know.
    """
    without = changed("slurm.cgroupPlugin", "disabled", changed("accounting", {"mode": "off"}, base))
    files = slurm_conf.files(parse(without))
    ours = {
        "SlurmctldHost": "localhost(127.0.0.1)",
        "SlurmctldPort": str(port),
        "MaxNodeCount": "8192",
        "DisableRootJobs": "NO",
    }
    lines = [line for line in files["slurm.conf"].splitlines() if line.partition("=")[0] not in ours]
    lines = [line for line in lines if not line.startswith(("HealthCheck", "Prolog=", "Epilog="))]
    return {**files, "slurm.conf": "\n".join([*lines, *(f"{key}={value}" for key, value in ours.items())]) + "\n"}
