"""A machine of the NFS tests' network: namespaces of its own, and daemons in them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

TOOLS = Path(os.environ.get("PULUMI_SLURM_NFS_TOOLS") or "/")
"""Where Debian's NFS programs are unpacked."""

# Of a process that holds the namespaces: what the daemons keep is theirs alone, and so are the users they want to be.
_HOLD = """
set -e
hostname "$1"
mount -t tmpfs state /var/lib/nfs
mkdir /var/lib/nfs/sm /var/lib/nfs/sm.bak /var/lib/nfs/nfsdcld
for file in etab rmtab state; do : > /var/lib/nfs/$file; done
cp /etc/passwd /var/lib/nfs/passwd
printf '_rpc:x:64:65534::/run/rpcbind:/bin/false\\nstatd:x:65:65534::/var/lib/nfs:/bin/false\\n' >> /var/lib/nfs/passwd
mount --bind /var/lib/nfs/passwd /etc/passwd
printf "$2" > /var/lib/nfs/hosts
mount --bind /var/lib/nfs/hosts /etc/hosts
mount -t tmpfs run /run
mkdir /run/rpcbind /run/rpc_pipefs /run/lock
mount -t rpc_pipefs pipes /run/rpc_pipefs
ip link set lo up
echo up
exec cat
"""


class Machine:
    """A machine of the network: namespaces that a process holds, and daemons in them."""

    def __init__(self, name: str, hosts: str) -> None:
        self.name = name
        Path("/var/lib/nfs").mkdir(exist_ok=True)
        unshare = ["unshare", "--net", "--mount", "--uts", "--propagation", "slave"]
        self._holder = subprocess.Popen(
            [*unshare, "sh", "-c", _HOLD, "sh", name, hosts],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"up\n"
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def holder(self) -> int:
        """The process that holds the namespaces."""
        return self._holder.pid

    def run(self, *command: str, seconds: float = 60, own_mounts: bool = True) -> str:
        """Runs a command here and returns what it printed; without own mounts it sees the tests' own."""
        spaces = ["--net", "--uts", *(["--mount"] if own_mounts else [])]
        done = subprocess.run(
            ["nsenter", "-t", str(self.holder), *spaces, *command],
            capture_output=True, text=True, timeout=seconds, check=False, env=environment(),
        )  # fmt: skip
        assert done.returncode == 0, f"{self.name}: {' '.join(command)}: {done.stderr or done.stdout}"
        return done.stdout

    def start(self, *command: str) -> None:
        """Starts a daemon that stays in the foreground."""
        enter = ["nsenter", "-t", str(self.holder), "--net", "--uts", "--mount"]
        name = Path(command[0]).name
        self._daemons[name] = subprocess.Popen([*enter, *command], stdin=subprocess.DEVNULL, env=environment())

    def end_daemon(self, name: str) -> None:
        """Ends a daemon."""
        daemon = self._daemons.pop(name)
        daemon.kill()
        daemon.wait()

    def end(self) -> None:
        """Ends the daemons and lets go of the namespaces."""
        for name in reversed(list(self._daemons)):
            self.end_daemon(name)
        self._holder.kill()
        self._holder.wait()


def program(name: str) -> str:
    """Path of an NFS program."""
    found = (TOOLS / folder / name for folder in ("usr/sbin", "sbin"))
    return next(str(path) for path in found if path.exists())


def environment() -> dict[str, str]:
    """Of the NFS programs: the libraries that are unpacked beside them."""
    if Path("/") == TOOLS:
        return dict(os.environ)
    libraries = (TOOLS / folder / "x86_64-linux-gnu" for folder in ("usr/lib", "lib"))
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, libraries))}
