"""MariaDB, slurmdbd, slurmctld and slurmrestd of the images in one namespace, without Kubernetes and without nodes.

Or MariaDB and slurmdbd alone, in the network of a small cluster.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from slurm_database import start

from contract import names, paths
from tests.image.small_cluster import SmallCluster

CLUSTER = "test"
_ROOM = """
set -e
if [ -z "$JOINS" ]; then
    ip link set lo up
    # An address that is not the loopback's: resolvers take names for unusable without one.
    ip link add net0 type bridge
    ip address add 10.77.0.1/24 dev net0
    ip link set net0 up
fi
hostname room
for root in "$SLURM" "$DATABASE"; do
    mount --bind "$root" "$root"
    for folder in run tmp dev; do mount -t tmpfs "$folder" "$root/$folder"; done
    for device in null zero random urandom; do
        touch "$root/dev/$device"
        mount --bind "/dev/$device" "$root/dev/$device"
    done
    mount -t proc proc "$root/proc"
    mount --bind "$FOLDER/hosts" "$root/etc/hosts"
done
mount -t tmpfs etc "$SLURM/etc/slurm"
cp "$FOLDER"/etc/* "$SLURM/etc/slurm/"
mkdir "$SLURM/run/state" "$DATABASE/run/data"
chown -R "$SLURM_UID:$SLURM_UID" "$SLURM/etc/slurm" "$SLURM/run/state"
chmod 600 "$SLURM/etc/slurm/slurmdbd.conf" "$SLURM"/etc/slurm/*.key
chown "$DATABASE_UID:$DATABASE_UID" "$DATABASE/run" "$DATABASE/run/data"
in_database() { chroot --userspec="$DATABASE_UID:$DATABASE_UID" "$DATABASE" "$@"; }
in_database mariadb-install-db --no-defaults --datadir=/run/data --skip-test-db >/dev/null
printf '%s' "$FIRST" > "$DATABASE/run/first"
in_database mariadbd $OPTIONS --datadir=/run/data --socket=/run/socket --pid-file=/run/pid --init-file=/run/first >&2 &
until chroot "$DATABASE" mariadb --socket=/run/socket -e "use slurm_acct_db" 2>/dev/null; do sleep 0.2; done
echo up
exec cat
"""
_FIRST = """create database slurm_acct_db;
create user slurm@'%' identified by 'pw';
grant all on slurm_acct_db.* to slurm@'%';
"""
_SLURMDBD = f"""
AuthType=auth/slurm
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt.key
DbdHost=room
SlurmUser=slurm
PluginDir={paths.PLUGIN_DIR}
PidFile=/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=10.77.0.1
StorageUser=slurm
StoragePass=pw
"""
_SLURM = f"""
ClusterName={CLUSTER}
SlurmctldHost=room
AuthType=auth/slurm
CredType=cred/slurm
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt.key
SlurmUser=slurm
PluginDir={paths.PLUGIN_DIR}
StateSaveLocation=/run/state
SlurmctldPidFile=/run/state/pid
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=room
AccountingStorageTRES=gres/gpu
AccountingStorageEnforce=limits
EnforcePartLimits=ALL
GresTypes=gpu
NodeName=n1 State=CLOUD
PartitionName=p Nodes=n1 Default=YES
"""
_DAEMONS = (
    ("SLURM_SACK_KEY=/etc/slurm/slurm.key", "slurmdbd", "-D"),
    ("slurmctld", "-D"),
    (
        "SLURM_JWT=daemon",
        "chroot",
        f"--userspec={names.SLURMREST_UID}:{names.SLURMREST_UID}",
        "/",
        "slurmrestd",
        "-a",
        "rest_auth/jwt",
        "0.0.0.0:6820",
    ),
)


class AccountingRoom:
    """The daemons, which end with this context.

    Args:
        slurm: the slurm image's root.
        database: the database image's root.
        folder: for files, which outlive the daemons.
        joins: a small cluster, for whose slurmctld this slurmdbd is; then no other slurmctld and slurmrestd start.
    """

    def __init__(self, slurm: Path, database: Path, folder: Path, joins: SmallCluster | None = None) -> None:
        self._joins = joins
        self._slurm = slurm
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        (folder / "etc").mkdir()
        (folder / "hosts").write_text("127.0.0.1 localhost\n10.77.0.1 room\n")
        (folder / "etc/slurm.key").write_bytes(joins.key if joins else os.urandom(1024))
        (folder / "etc/jwt.key").write_bytes(os.urandom(32))
        (folder / "etc/slurmdbd.conf").write_text(_SLURMDBD)
        (folder / "etc/slurm.conf").write_text(_SLURM)
        (folder / "etc/gres.conf").write_text("AutoDetect=off\n")
        options = [option for option in start.OPTIONS if not option.startswith(("--datadir", "--socket", "--pid-file"))]
        self._environment = {
            "PATH": os.environ["PATH"],
            "JOINS": "yes" if joins else "",
            "SLURM": str(slurm),
            "DATABASE": str(database),
            "FOLDER": str(folder),
            "OPTIONS": " ".join(options),
            "FIRST": _FIRST,
            "SLURM_UID": str(names.SLURM_UID),
            "DATABASE_UID": str(names.DATABASE_UID),
        }

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def sh(self, *command: str, within: int = 60) -> str:
        """Return what a command in the slurm image's root says."""
        done = subprocess.run(self._inside(*command), capture_output=True, text=True, timeout=within, check=False)
        return done.stdout + done.stderr

    def bring(self, declared: dict[str, Any] | None, status: dict[str, Any] | None = None) -> dict[str, Any]:
        """Have a new operator bring accounts: `spec.accounts` and `status.accounts` → status and findings."""
        key = str(self._folder / "etc/jwt.key")
        asked = json.dumps({"cluster": CLUSTER, "key": key, "declared": declared, "status": status})
        room = ["nsenter", "-t", str(self._pid), "--net", sys.executable, "-m", "tests.image.records.account_steps"]
        found_as_here = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            room, input=asked, env=found_as_here, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        told: dict[str, Any] = json.loads(done.stdout)
        return told

    def _start(self) -> None:
        flags = ("--mount", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc")
        network = self._joins.in_network("unshare") if self._joins else ["unshare", "--net"]
        room = subprocess.Popen(
            [*network, *flags, "bash", "-c", _ROOM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(self._folder / "room.log").open("wb"),
            env=self._environment,
        )
        self._processes.append(room)
        assert room.stdout is not None
        assert room.stdout.readline() == b"up\n", (self._folder / "room.log").read_text()
        children = Path(f"/proc/{room.pid}/task/{room.pid}/children").read_text().split()
        self._pid = int(children[0])
        for number, daemon in enumerate(_DAEMONS[:1] if self._joins else _DAEMONS):
            log = (self._folder / f"daemon{number}.log").open("wb")
            self._processes.append(subprocess.Popen(self._inside(*daemon), stdout=log, stderr=log))
            listed = {0: "root", 1: CLUSTER}.get(number)
            if listed:
                show = ("sacctmgr", "-nP", "show", "account" if number == 0 else "cluster", "format=account,cluster")
                self.wait(lambda listed=listed, show=show: listed in self.sh(*show[:4]))

    def wait(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 90
        while not holds():
            assert time.monotonic() < deadline, self._logs()
            time.sleep(0.2)  # Daemons tell nobody that they answer.

    def _logs(self) -> str:
        return "\n".join(log.read_text(errors="replace")[-2000:] for log in sorted(self._folder.glob("*.log")))

    def _inside(self, *command: str) -> list[str]:
        path = f"PATH={paths.PREFIX}/sbin:{paths.PREFIX}/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        entered = ["nsenter", "-t", str(self._pid), "--net", "--mount", "--pid", "--uts"]
        return [*entered, "chroot", str(self._slurm), "env", "-i", path, *command]

    def _end(self) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait()
