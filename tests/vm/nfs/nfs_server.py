"""The kernel's NFS server over a disk, and nodes that mount it, each with its own network and name.

Whatever it starts and mounts it ends as a context. The machine's own NFS, if it has one, is in another network.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from ipaddress import IPv4Network
from pathlib import Path
from typing import Self

from tests.vm.nfs.nfs_machine import Machine, program

NETWORK = IPv4Network("10.78.0.0/24")
"""Of the server and all that mount from it, a dev cluster's node among them: none of that node's own networks."""
SERVER, ADDRESS = "nfs-server", str(NETWORK[1])
FIRST_NODE = 10
"""The first node's number in the network."""
GRACE_SECONDS = 10
"""The least that nfsd takes for its lease and the time in which clients take back their locks."""
LOCK_GRACE = Path("/proc/sys/fs/nfs/nlm_grace_period")
"""The same for version 3, for all servers of the machine: 50 s unless it is set, in which nobody gets a new lock."""
THREADS = 8
MEMORY = "/dev/shm"
"""For a server's disk: with `sync` it brings each file to its disk, and a guest's own is slow at that."""


class Disk(Enum):
    """The export's file system: on a disk image, or in memory, which forgets all but takes each write at once."""

    EXT4 = "ext4"
    TMPFS = "tmpfs"


class NfsServer:
    """A server with one export, and the nodes' mounts of it. It serves versions 3, 4.1 and 4.2 at once.

    Args:
        folder: for its disk.
        nodes: machines that mount it.
        options: of the export, as in exports(5).
        mebibytes: size of the disk.
        kind: of the disk.
    """

    def __init__(
        self,
        folder: Path,
        nodes: tuple[str, ...],
        options: str = "rw,no_root_squash",
        mebibytes: int = 2048,
        kind: Disk = Disk.EXT4,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._disk = folder / "disk"
        self.export = folder / "volume"
        """The exported folder, as the server sees it."""
        self._filler = self.export / ".filler"
        self._mounts: list[Path] = []
        self.export.mkdir()
        if kind is Disk.TMPFS:
            _run("mount", "-t", "tmpfs", "-o", f"size={mebibytes}m,mode=755", "export", str(self.export))
        else:
            self._make_disk(mebibytes)
        self._lock_grace = LOCK_GRACE.read_text()
        LOCK_GRACE.write_text(str(GRACE_SECONDS))
        # Their mounts begin as a copy of ours, the disk's among them.
        self._addresses = {name: str(NETWORK[FIRST_NODE + number]) for number, name in enumerate(nodes)}
        # By their names statd tells machines apart.
        known = {"localhost": "127.0.0.1", SERVER: ADDRESS, **self._addresses}
        hosts = "".join(f"{address} {name}\n" for name, address in known.items())
        self.machine = Machine(SERVER, hosts)
        self.nodes = {name: Machine(name, hosts) for name in nodes}
        try:
            self._connect()
            self._start_daemons(options)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.recover()
        for point in reversed(self._mounts):
            if _run("umount", str(point), check=False) != 0:
                _run("umount", "--force", "--lazy", str(point), check=False)
        for node in self.nodes.values():
            node.end()
        with suppress(AssertionError):
            self.stop()
        self.machine.end()
        LOCK_GRACE.write_text(self._lock_grace)
        if self.export.is_mount():
            wait("the disk is free", lambda: _run("umount", str(self.export), check=False) == 0, 30)

    def _make_disk(self, mebibytes: int) -> None:
        with self._disk.open("wb") as disk:
            disk.truncate(mebibytes << 20)
        _run("mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", str(self._disk))
        _run("mount", "-o", "loop", str(self._disk), str(self.export))

    def _connect(self) -> None:
        run = self.machine.run
        run("ip", "link", "add", "net0", "type", "bridge")
        run("ip", "address", "add", _with_mask(ADDRESS), "dev", "net0")
        run("ip", "link", "set", "net0", "up")
        for number, node in enumerate(self.nodes.values()):
            port = f"port{number}"
            run("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(node.holder))
            run("ip", "link", "set", port, "master", "net0", "up")
            node.run("ip", "address", "add", _with_mask(self._addresses[node.name]), "dev", "eth0")
            node.run("ip", "link", "set", "eth0", "up")
            node.start(program("rpcbind"), "-f", "-w")
            self.start_locks(node)

    def connect_here(self, address: str) -> None:
        """Gives the tests' own network an address in the server's."""
        here = str(os.getpid())
        self.machine.run("ip", "link", "add", "out", "type", "veth", "peer", "name", "nfs", "netns", here)
        self.machine.run("ip", "link", "set", "out", "master", "net0", "up")
        _run("ip", "address", "add", _with_mask(address), "dev", "nfs")
        _run("ip", "link", "set", "nfs", "up")

    def start_locks(self, machine: Machine) -> None:
        """Starts what version 3 needs for locks, and waits until it is known on that machine."""
        wait(f"rpcbind on {machine.name}", lambda: _answers(machine, "portmapper"), 30)
        machine.start(program("rpc.statd"), "--foreground", "--no-notify")
        wait(f"rpc.statd on {machine.name}", lambda: _answers(machine, "status"), 30)

    def _start_daemons(self, options: str) -> None:
        run, start = self.machine.run, self.machine.start
        start(program("rpcbind"), "-f", "-w")
        self.start_locks(self.machine)
        run("mount", "-t", "nfsd", "nfsd", "/proc/fs/nfsd")
        self._set("nfsv4leasetime", GRACE_SECONDS)
        start(
            program("nfsdcld"), "--foreground", "--pipefsdir", "/run/rpc_pipefs", "--storagedir", "/var/lib/nfs/nfsdcld"
        )
        self.export_with(options)
        start(program("rpc.mountd"), "--foreground", "--no-nfs-version", "2")
        self.start()

    def _set(self, name: str, value: object) -> None:
        self.machine.run("sh", "-c", f"echo {value} > /proc/fs/nfsd/{name}")

    def export_with(self, options: str, clients: str = str(NETWORK)) -> None:
        """Exports the folder with other options, as an administrator does on a running server."""
        self.machine.run(program("exportfs"), "-ua")
        common = f"{options},sync,no_subtree_check,insecure,fsid=0"
        self.machine.run(program("exportfs"), "-i", "-o", common, f"{clients}:{self.export}")
        self.machine.run(program("exportfs"), "-f")

    def start(self, grace_seconds: int = GRACE_SECONDS) -> None:
        """Starts the server's threads. Clients of version 4 take back their locks until all have, or for so long.

        nfsd first looks for silent clients when that time is over, also if all had taken theirs back before.
        """
        self._set("nfsv4gracetime", grace_seconds)
        self.machine.run(program("rpc.nfsd"), "--no-udp", str(THREADS))

    def stop(self) -> None:
        """Stops the server: it refuses connections, and forgets all locks."""
        self.machine.run(program("rpc.nfsd"), "0")

    def restart(self, grace_seconds: int) -> None:
        """Stops and starts it."""
        self.stop()
        self.start(grace_seconds)

    def become_slow(self, milliseconds: int) -> None:
        """Delays each packet to and from the nodes."""
        self._shape(tuple(self.nodes), "delay", f"{milliseconds}ms")

    def hang(self, *nodes: str) -> None:
        """Loses each packet to and from some nodes."""
        self._shape(nodes, "loss", "100%")

    def recover(self) -> None:
        """Ends what become_slow and hang began, and fill."""
        for machine, port in self._links(tuple(self.nodes)):
            with suppress(AssertionError):
                machine.run("tc", "qdisc", "del", "dev", port, "root")
        self._filler.unlink(missing_ok=True)

    def _shape(self, nodes: tuple[str, ...], *netem: str) -> None:
        for machine, port in self._links(nodes):
            machine.run("tc", "qdisc", "replace", "dev", port, "root", "netem", *netem)

    def _links(self, nodes: tuple[str, ...]) -> list[tuple[Machine, str]]:
        ports = {name: f"port{number}" for number, name in enumerate(self.nodes)}
        return [*((self.machine, ports[name]) for name in nodes), *((self.nodes[name], "eth0") for name in nodes)]

    def fill(self) -> None:
        """Takes all room on the disk."""
        with self._filler.open("wb") as filler, suppress(OSError):
            facts = os.statvfs(self.export)
            os.posix_fallocate(filler.fileno(), 0, facts.f_bavail * facts.f_frsize - (1 << 20))
            filler.seek(0, os.SEEK_END)
            while True:
                os.write(filler.fileno(), bytes(4096))

    def end_leases(self) -> None:
        """Forgets the clients of version 4 and their locks, as after a long silence with others at the locks."""
        script = 'for client in /proc/fs/nfsd/clients/*/ctl; do echo expire > "$client"; done'
        self.machine.run("sh", "-c", script)

    def mount(self, node: str, point: Path, options: str) -> Path:
        """Mounts the export for a node at a folder that the tests see."""
        point.mkdir(parents=True, exist_ok=True)
        # The root of the export has another name in version 3.
        path = self.export if "vers=3" in options else "/"
        self.nodes[node].run(program("mount.nfs"), f"{ADDRESS}:{path}", str(point), "-o", options, own_mounts=False)
        self._mounts.append(point)
        return point

    def unmount(self, point: Path) -> None:
        """Takes a mount away that nobody uses."""
        _run("umount", str(point))
        self._mounts.remove(point)


def _with_mask(address: str) -> str:
    return f"{address}/{NETWORK.prefixlen}"


def _answers(machine: Machine, service: str) -> bool:
    with suppress(AssertionError):
        return service in machine.run(program("rpcinfo"), "-p", "127.0.0.1")
    return False


def wait(what: str, condition: Callable[[], object], seconds: float) -> float:
    """Waits for a condition and returns how many seconds it took."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < seconds, f"{what}: not within {seconds} s"
        time.sleep(0.05)  # Between two looks: the kernel's NFS tells nobody.
    return time.monotonic() - started


def _run(*command: str, check: bool = True) -> int:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert not check or done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.returncode
