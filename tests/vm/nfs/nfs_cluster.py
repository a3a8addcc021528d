"""A cluster whose jail lies on a kernel's NFS server: two workers and a login node, a mount for each."""

from __future__ import annotations

from pathlib import Path

from components.config.storage import Nfs
from tests.image import roots
from tests.image.jobs.bundles import make_bundle
from tests.image.jobs.intervals import OFTEN
from tests.image.pods import LOGIN, SECOND, WORKER
from tests.image.small_cluster import ALICE
from tests.vm.nfs.nfs_server import ADDRESS, NfsServer, wait
from tests.vm.resting_cluster import KILL_WAIT, RestingCluster

VERSIONS = ("4.1", "3")
"""The default, and the one whose locks are another daemon's: a cluster lives on each."""
EVERY_VERSION = ("4.2", *VERSIONS)
"""Versions that populate is tried with, and that the fake stands for."""
NODES = {"node-1": ("populate", WORKER), "node-2": (SECOND,), "node-3": (LOGIN,)}
"""Machines with a mount, and the pods on them."""
# In the pod's own root, since the jail is what hangs.
ASK = "/opt/slurm/bin/sinfo -h -n {} -o '%T %E'"
LOCK = """exec perl -MFcntl -e 'open(F,"+<","/etc/.pwd.lock") or die $!;
$l=pack("s s x4 l! l! i",F_WRLCK,0,0,0,0);fcntl(F,{},$l) or die "refused: $!";$|=1;print "locked\\n";sleep {}'"""
"""Holds the lock of the account files for some seconds, taken by F_SETLK or F_SETLKW."""


def options(version: str, *more: str) -> str:
    """Return the options with which the program mounts an export."""
    shared = {"server": ADDRESS, "path": "/x", "version": version, "mountOptions": []}
    return ",".join([*Nfs.model_validate(shared).options, *more])


class NfsCluster(RestingCluster):
    """A cluster on the export of a server that has a machine for each of NODES; a bundle is in alice's home."""

    workers = (WORKER, SECOND)

    def __init__(self, image: Path, server: NfsServer, version: str) -> None:
        folder = server.export.parent
        root = roots.make("mpich", server.export / "root")
        mounts = {node: server.mount(node, folder / node, options(version)) for node in NODES}
        self._server = server
        volumes = {pod: mounts[node] for node, pods in NODES.items() for pod in pods}
        super().__init__(image, root, folder, volumes, slurm={"options": {**OFTEN["options"], **KILL_WAIT}})

    def start_all(self) -> None:
        """Starts the daemons of both workers and the login node, and makes the bundle."""
        self.start()
        self.start_second_worker()
        self.start_login()
        self.jail("groupadd -g 3000 lab && usermod -aG lab alice")
        make_bundle(self.root, self._server.export / "persistent/home/alice/bundle")

    def node_says(self, node: str) -> str:
        """A worker's state and the reason of its drain."""
        return self.pod(ASK.format(node)).stdout

    def login_says(self) -> str:
        """Return why the login node is not ready; empty when it is."""
        return self.pod("/usr/libexec/slurm-node/ready login", name=LOGIN).stderr

    def is_locked_out(self, node: str) -> bool:
        """Return whether a node is refused the lock of the account files."""
        done = self.jail(LOCK.format("F_SETLK", 0), name=node)
        assert done.returncode == 0 or "refused" in done.stderr, done
        return done.returncode != 0

    def seconds_until(self, script: str, node: str, user: int = 0) -> float:
        """Return how long a node's shell, which failed at a script, goes on failing."""
        return wait(script, lambda: self.jail(script, name=node, user=user).returncode == 0, 90)

    def submit(self, script: str) -> str:
        """A batch job of alice's on the first worker, submitted on the login node; its number."""
        done = self.ssh(f"sbatch --parsable -w {WORKER} -o /home/alice/job.out --wrap '{script}'")
        assert done.returncode == 0, done
        return done.stdout.strip()

    def ended(self, job: str) -> None:
        """Waits for a job's end."""
        self.wait("the job's end", lambda: not self.pod(f"/opt/slurm/bin/squeue -h -j {job}").stdout.strip(), 90)

    def lines(self, name: str) -> int:
        """Lines of a file of alice's as the server has it."""
        file = self._server.export / "persistent/home/alice" / name
        return len(file.read_text().splitlines()) if file.exists() else 0

    def look_in_vain(self, script: str, node: str, user: int = ALICE) -> None:
        """A node's shell fails at a script, more than once: now the node remembers."""
        for _ in range(3):
            assert self.jail(script, name=node, user=user).returncode != 0
