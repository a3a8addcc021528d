"""A Slurm cluster of the image's own entry points (pods.py): slurmctld, a login node and workers with any root.

Its configuration was rendered before, maybe on another machine: a machine with GPUs may lack what renders one.
"""

from __future__ import annotations

import functools
import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from contract import names
from tests.image.networks import ADDRESS
from tests.image.pods import (
    CONTROLLER,
    DIRECTORY,
    LOGIN,
    REVISION,
    SECOND,
    SECOND_ADDRESS,
    THIRD,
    THIRD_ADDRESS,
    WORKER,
    Pods,
    run,
)

ALICE = 1000

# What the populate Job does; the copy has been made here already.
POPULATE = """
import sys
from slurm_node.pod import paths, settings
from slurm_node.roles import populate
from slurm_node.roots import completion, image_root, inventory
jail = settings.read_jail()
root = paths.root_of(paths.VOLUME, jail.revision)
image_root.check(root)
completion.complete_root(root)
inventory.note_image(root, paths.VOLUME, jail.revision)
sys.exit(populate.main())
"""


@functools.cache
def _ssh_key(image: Path, kind: str, name: str) -> tuple[bytes, bytes]:
    """Make a key of that name for all clusters of this run: a new one of RSA takes half a second of a core.

    Returns:
        The private and the public key, as the image's ssh-keygen writes them: this machine may have none.
    """
    with tempfile.TemporaryDirectory(dir=image / "tmp") as folder:
        file = Path(folder) / name
        inside = f"/{file.relative_to(image)}"
        command = ["chroot", str(image), "/usr/bin/ssh-keygen", "-q", "-N", "", "-t", kind, "-f", inside]
        subprocess.run(command, check=True, timeout=60)
        return file.read_bytes(), file.with_name(f"{name}.pub").read_bytes()


@dataclass(frozen=True, slots=True)
class Rendered:
    """Files and variables that the program makes of a configuration.

    Attributes:
        files: name of each of Slurm's files → its text.
        scripts: ConfigMap of the site's scripts → name of each → its text.
        node: fields of SLURM_NODE on the workers, besides those that each pod has of its own.
    """

    files: Mapping[str, str]
    scripts: Mapping[str, Mapping[str, str]]
    node: Mapping[str, object]


class RenderedCluster(Pods):
    """slurmctld and one worker, whose jobs have the root at ``root``. As a context it ends all of its pods.

    Args:
        image: the slurm image's root.
        root: is moved to the jail's volume.
        folder: the volume and all else lies in it.
        rendered: of the configuration.
        volumes: pod → its own mount of the volume; the folder ``volume`` itself for others.
        groups: folder of a cgroup v2 hierarchy in which each pod gets a group and a cgroup namespace of its own.
        as_in_kubernetes: gives workers and logins only the capabilities of components/pods/pod_security.py.
        before: shell before a worker's root is entered, with it at $POD, as a hook of a container runtime.
    """

    cpus = os.cpu_count() or 1
    """So many CPUs a worker's slurmd registers."""
    memory_mib = 1024
    """So much memory it registers, if `start_worker` says no other number."""

    def __init__(
        self,
        image: Path,
        root: Path,
        folder: Path,
        rendered: Rendered,
        volumes: Mapping[str, Path] | None = None,
        groups: Path | None = None,
        as_in_kubernetes: bool = False,
        before: str = "",
    ) -> None:
        super().__init__(folder, image, volumes or {}, groups, as_in_kubernetes, before)
        self._image = image
        self._rendered = rendered
        self._batches = 0
        (folder / "volume/roots").mkdir(parents=True)
        (folder / "state").mkdir()
        root.rename(folder / "volume/roots" / REVISION)
        self.root = folder / "volume/roots" / REVISION
        self._write_files()

    def _write_files(self) -> None:
        (self._folder / "config").mkdir()
        for name, text in self._rendered.files.items():
            (self._folder / "config" / name).write_text(text)
        for place, scripts in self._rendered.scripts.items():
            folder = self._folder / "scripts" / place
            folder.mkdir(parents=True)
            for name, text in scripts.items():
                (folder / name).write_text(text)
                (folder / name).chmod(0o555)
        (self._folder / "hosts").write_text(
            f"127.0.0.1 localhost\n{ADDRESS} slurm-controller {CONTROLLER} {WORKER} {LOGIN} {names.ACCOUNTING}\n"
            f"{SECOND_ADDRESS} {SECOND}\n{THIRD_ADDRESS} {THIRD}\n"
        )
        (self._folder / "keys").mkdir()
        for name in ("slurm.key", "jwt.key"):
            (self._folder / "keys" / name).write_bytes(os.urandom(64))
        for name in ("ssh_host_ed25519_key", "ssh_host_rsa_key", "alice"):
            private, public = _ssh_key(self._image, "rsa" if "rsa" in name else "ed25519", name)
            file = self._folder / "keys" / name
            file.write_bytes(private)
            file.chmod(0o600)
            file.with_name(f"{name}.pub").write_bytes(public)

    def _alice(self) -> dict[str, object]:
        return {"name": "alice", "sshPublicKeys": [(self._folder / "keys/alice.pub").read_text().strip()]}

    @property
    def key(self) -> bytes:
        """Return what slurm.key holds: nobody in a jail may read it."""
        return (self._folder / "keys/slurm.key").read_bytes()

    @property
    def token_key(self) -> bytes:
        """Return the key that signs tokens for slurmrestd."""
        return (self._folder / "keys/jwt.key").read_bytes()

    def populate(self, revision: str = REVISION) -> None:
        """Completes a root that is there, as the populate Job does; once more is no harm."""
        wanted = {
            "SLURM_JAIL": json.dumps({**self._jail, "revision": revision}),
            "SLURM_USERS": json.dumps([self._alice()]),
        }
        populated = subprocess.run(
            self._pod("populate", f"python3 -c {shlex.quote(POPULATE)}", **wanted),
            capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip
        assert populated.returncode == 0, populated.stderr

    def start(self, first: str = "") -> None:
        """Populates, starts the daemons and waits until the worker takes jobs; ``first`` as for start_worker."""
        self.populate()
        self._start(CONTROLLER, "controller", user=True)
        self.start_worker(WORKER, REVISION, first)
        self._take_into_service(WORKER)

    def let_root_submit(self) -> None:
        """Has slurmctld take jobs of root, whom the configuration refuses: they stand for sudo in a job."""
        partitions = self.pod("/opt/slurm/bin/sinfo -h -o %R").stdout.split()
        for each in partitions:
            let = self.pod(f"/opt/slurm/bin/scontrol update partitionname={each} disablerootjobs=no")
            assert let.returncode == 0, let.stderr

    def restart_controller(self) -> None:
        """Ends slurmctld as Kubernetes ends its pod, starts another with the same state, and waits for its answers."""
        os.kill(self.first_process(CONTROLLER), signal.SIGTERM)
        self._pods[CONTROLLER].wait(60)
        self._start(CONTROLLER, "controller", user=True)
        ping = "/opt/slurm/bin/scontrol ping | grep -q UP"
        self.wait("slurmctld answers", lambda: self.pod(ping).returncode == 0, 60)

    def start_second_worker(self, first: str = "") -> None:
        """Starts another worker, with an address of its own, and waits until it takes jobs."""
        self._start_another(SECOND, SECOND_ADDRESS, first)

    def start_third_worker(self) -> None:
        """Starts one more, in the same way."""
        self._start_another(THIRD, THIRD_ADDRESS)

    def _start_another(self, name: str, address: str, first: str = "") -> None:
        self._networks.add(name, address)
        self.start_worker(name, REVISION, first)
        self._take_into_service(name)

    def _take_into_service(self, name: str) -> None:
        self.wait("the worker is ready", lambda: self.state(name) == "ready", 90)

        def state() -> str:
            return self.jail(f"sinfo -h -n {name} -o %T").stdout.strip()

        # A new node waits, drained, for the operator's look at it.
        self.wait("the node is drained or idle", state, 60)
        self.pod("/opt/slurm/bin/scontrol update nodename=$(hostname) state=undrain", name=name)
        self.wait("the node is idle", lambda: state() == "idle", 60)

    def start_worker(self, name: str, revision: str, first: str = "", memory_mib: int = 0) -> None:
        """Starts a worker with the root of a revision, in the place of a pod of that name.

        Only one of those with the common address can run slurmd.

        Args:
            name: of the pod.
            revision: of the root.
            first: shell in the pod, before its entry.
            memory_mib: what its slurmd says of itself; 0: the usual.
        """
        node = {
            "controller": "slurm-controller:6817",
            "nodeSet": "cpu",
            "cpus": self.cpus,
            "memoryMib": memory_mib or self.memory_mib,
            **self._rendered.node,
        }
        jail = json.dumps({**self._jail, "revision": revision})
        self._start(name, "worker", first=first, SLURM_NODE=json.dumps(node), SLURM_JAIL=jail)

    def start_login(self, first: str = "", **more: bool | int | list[str]) -> None:
        """Starts a login node, with further fields of SLURM_LOGIN, and waits until its sshd answers.

        Args:
            first: shell in the pod, before its entry.
            more: fields of SLURM_LOGIN.
        """
        login = json.dumps({"memoryMib": 1024, "processes": 256, **more})
        node = json.dumps({"controller": "slurm-controller:6817"})
        self._start(LOGIN, "login", first=first, SLURM_NODE=node, SLURM_LOGIN=login)
        self.wait("a login", lambda: self.ssh("true").returncode == 0, 60)

    def start_directory(self, wanted: Mapping[str, object], files: Path, name: str = DIRECTORY) -> None:
        """Starts the pod that follows a directory; ``files`` are those of its Secrets."""
        shutil.copytree(files, self._folder / "keys" / name, dirs_exist_ok=True)
        first = f"mv /run/secrets/slurm/{name} /run/secrets/directory; "
        self._start(name, "directory", first=first, SLURM_DIRECTORY=json.dumps(wanted))

    def ssh(
        self, *words: str, given: str = "", seconds: int = 60, user: str = "alice"
    ) -> subprocess.CompletedProcess[str]:
        """A command over SSH; ``given`` is what it reads. It ends with 124 if it is not done in time."""
        command = ["timeout", str(seconds), *self.client("ssh"), f"{user}@{ADDRESS}", *words]
        return run(command, seconds + 10, given)

    def client(self, program: str) -> list[str]:
        """ssh, scp or sftp with the key of alice, in the cluster's network."""
        options = (
            *("BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR"),
            "KexAlgorithms=curve25519-sha256",  # As devcluster/cli/login.py, for the cores.
        )
        return [
            *self.in_network(program, "-i", str(self._folder / "keys/alice")),
            *(word for option in options for word in ("-o", option)),
        ]

    def batch(self, script: str, *options: str, user: int = ALICE) -> str:
        """Submits a script, waits for its end and returns what it wrote."""
        written = f"{'/home/alice' if user else '/root'}/out-{self._batches}"
        self._batches += 1
        wanted = shlex.join(["sbatch", "--parsable", "-o", written, *options, "--wrap", script])
        submitted = self.jail(wanted, user=user)
        assert submitted.returncode == 0, submitted.stderr
        self.wait("the job's end", lambda: not self.jail(f"squeue -h -j {submitted.stdout}").stdout.strip(), 60)
        return self.jail(f"cat {written}", user=user).stdout

    def append(self, file: str, text: str) -> None:
        """Adds to a file of the configuration; slurmctld reads it when it is told to."""
        with (self._folder / "config" / file).open("a") as conf:
            conf.write(text)
