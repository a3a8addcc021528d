"""Writes a configuration for a config dry run: apart from the cluster, with temporary keys."""

import re
import secrets
import socket
from collections.abc import Mapping
from pathlib import Path

from contract import names
from slurm_node.slurm import slurmdbd_fallback

_NODES = re.compile(r"(?im)^\s*NodeName\s*=\s*([^\s,\[]+)(?:\[(\d+))?")
_SLURMDBD = re.compile(r"(?im)^\s*AccountingStorageType\s*=\s*accounting_storage/slurmdbd\s*$")
_CORES = 4096
"""More than a node has, so that each Cores= of gres.conf fits. Only slurmd can compare it with the node's own."""


def prepare(files: Mapping[str, str], folder: Path, slurmdbd_port: int | None = None) -> None:
    """Writes the copy, and the keys and folders that slurmctld needs.

    Args:
        files: name → text.
        folder: is made.
        slurmdbd_port: a local port at which slurmctld looks for slurmdbd; None: it runs without accounting.
    """
    etc, state = folder / "etc", folder / "state"
    folder.mkdir(exist_ok=True)
    etc.mkdir()
    state.mkdir()
    for name, text in files.items():
        (etc / name).write_text(text)
    (etc / names.SLURM_CONF).write_text(alone(files, folder, slurmdbd_port))
    for key in (names.SLURM_KEY, names.JWT_KEY):
        file = folder / key
        file.touch(0o600)
        file.write_bytes(secrets.token_bytes(64))


def alone(files: Mapping[str, str], folder: Path, slurmdbd_port: int | None = None) -> str:
    """Returns slurm.conf for a slurmctld without a cluster: on this host, with its own paths."""
    values = {
        "SlurmctldHost": f"{socket.gethostname()}(127.0.0.1)",
        "StateSaveLocation": str(folder / "state"),
        "SlurmctldPidFile": str(folder / "slurmctld.pid"),
        "AuthAltParameters": f"jwt_key={folder / names.JWT_KEY}",
    }
    slurm_conf = files[names.SLURM_CONF]
    given = slurm_conf.splitlines()
    if slurmdbd_port is None and has_accounting(files):
        given = lines_without_accounting(slurm_conf)
    elif slurmdbd_port is not None:
        values |= {"AccountingStorageHost": "127.0.0.1", "AccountingStoragePort": str(slurmdbd_port)}
    own = {key.lower(): f"{key}={value}" for key, value in values.items()}
    lines = []
    for line in given:
        key = line.partition("=")[0].strip().lower()
        lines.append(own.pop(key) if key in own else line)
    return "\n".join([*lines, *own.values(), *_nodes_with_gres(files)]) + "\n"


def lines_without_accounting(slurm_conf: str) -> list[str]:
    """Returns the lines, those that need slurmdbd emptied, so that slurmctld's line numbers stay right."""
    return [slurmdbd_fallback.without_accounting(f"{line}\n").rstrip("\n") for line in slurm_conf.splitlines()]


def has_accounting(files: Mapping[str, str]) -> bool:
    """Returns whether slurmctld would look for slurmdbd."""
    return _SLURMDBD.search(files[names.SLURM_CONF]) is not None


def _nodes_with_gres(files: Mapping[str, str]) -> list[str]:
    """Returns a node for each line of gres.conf that names some. For a CLOUD node slurmctld itself reads gres.conf."""
    first = dict.fromkeys(f"{name}{number}" for name, number in _NODES.findall(files.get(names.GRES_CONF, "")))
    return [f"NodeName={name} State=CLOUD CPUs={_CORES}" for name in first]
