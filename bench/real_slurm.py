"""slurmctld and slurmrestd of the slurm image, with nodes that have no slurmd: Slurm itself answers the operator.

Nodes of state EXTERNAL (slurm.conf(5)) are made in slurmctld by the REST API: they are idle without a daemon, and
slurmctld pings them never, so that thousands cost nothing but their records.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import httpx
import jwt

from components import slurm_conf
from components.config import parse
from devcluster.control_plane import free_ports
from tests.unit.samples import SMALL, changed

_API = "/slurm/v0.0.45"
_USER = 64030
_ENTRY = "/usr/bin/python3 -m slurm_node controller"
_PATH = "/opt/slurm/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# As the image's pods have it; the shell stays root, since who changes its user outlives its parent's end.
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
as 65534 "SLURM_JWT=daemon SLURMRESTD_SECURITY=$SECURITY /opt/slurm/sbin/slurmrestd -a rest_auth/jwt $REST" &
wait
"""


class RealSlurm:
    """The two daemons on free ports of this machine. As a context it ends them.

    Args:
        image: the slurm image's root.
        folder: configuration, keys and log lie in it.
        key: signs tokens (HS256).
    """

    def __init__(self, image: Path, folder: Path, key: bytes) -> None:
        self._image = str(image)
        self._key, self._log = key, folder / "slurm.log"
        port, rest = free_ports(2)
        self.url = f"http://127.0.0.1:{rest}"
        self.files = _configuration(port)
        for name, contents in (("config", {**self.files}), ("keys", {"slurm.key": os.urandom(64), "jwt.key": key})):
            (folder / name).mkdir(parents=True)
            for file, content in contents.items():
                (folder / name / file).write_bytes(content if isinstance(content, bytes) else content.encode())
        given = {
            "IMAGE": str(image), "CONFIG": str(folder / "config"), "KEYS": str(folder / "keys"), "USER": str(_USER),
            "INSIDE": _PATH, "CONTROLLER": _ENTRY, "REST": self.url.removeprefix("http://"),
            "SECURITY": "disable_unshare_files,disable_unshare_sysv", "PATH": os.environ["PATH"],
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
        """Nodes <set>-0 … that are idle."""
        names = f"{node_set}-[0-{count - 1}]"
        conf = f"NodeName={names} CPUs=8 RealMemory=1000 Feature={node_set} State=EXTERNAL"
        self._call("POST", "/new/node/", {"node_conf": conf})

    def drain(self, node: str, reason: str) -> None:
        """As root, which health checks are."""
        self._call("POST", f"/node/{node}", {"state": ["DRAIN"], "reason": reason})

    def undrain(self, node: str) -> None:
        """Lift a drain."""
        self._call("POST", f"/node/{node}", {"state": ["UNDRAIN"]})

    def command(self, line: str) -> str:
        """What a line of shell, with Slurm's commands, prints beside the daemons."""
        first = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()[0]
        inside = ["nsenter", "-t", first, "-m", "-p", "chroot", self._image, "env", "-i", f"PATH={_PATH}", "sh", "-c"]
        done = subprocess.run([*inside, line], capture_output=True, text=True, timeout=120, check=False)
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
                time.sleep(0.2)  # Slurm tells nobody that it answers.

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None) -> None:
        now = int(time.time())
        token = jwt.encode({"iat": now - 5, "exp": now + 60, "sun": "root"}, self._key, algorithm="HS256")
        headers = {"X-SLURM-USER-TOKEN": token}
        answer = httpx.request(method, self.url + _API + path, json=body, headers=headers, timeout=30, trust_env=False)
        if answer.is_error or answer.json().get("errors"):
            raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text[:1000]}")


def _configuration(port: int) -> dict[str, str]:
    """What the program renders, but that slurmctld listens on this machine, and no health check runs."""
    small = changed("slurm", {"cgroupPlugin": "disabled"}, changed("accounting", {"mode": "off"}, SMALL))
    files = slurm_conf.files(parse(small))
    ours = {"SlurmctldHost": "localhost(127.0.0.1)", "SlurmctldPort": str(port), "MaxNodeCount": "2048"}
    lines = [line for line in files["slurm.conf"].splitlines() if line.partition("=")[0] not in ours]
    lines = [line for line in lines if not line.startswith(("HealthCheck", "Prolog=", "Epilog="))]
    return {**files, "slurm.conf": "\n".join([*lines, *(f"{key}={value}" for key, value in ours.items())]) + "\n"}
