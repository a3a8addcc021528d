"""The way into a login node: real SSH as the ordinary user, with a key of the instance's own."""

from __future__ import annotations

import json
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster.machine.progress import StepFailed

USER = "dev"
ADMIN = "admin"
"""User that administers Slurm in the dev cluster, with the same key."""
CONNECT_DEADLINE_SECONDS = 15


@dataclass(frozen=True, slots=True)
class Login:
    """Address, user and key of the login.

    Args:
        folder: Keeps the key pair, the known hosts and the address, inside the instance's state folder.
    """

    folder: Path

    @property
    def key(self) -> Path:
        """Private key of the ordinary user."""
        return self.folder / "id_ed25519"

    @property
    def _address_file(self) -> Path:
        return self.folder / "address.json"

    def public_key(self) -> str:
        """Return the public key's line, for the stack's config; the pair is made if missing."""
        if not self.key.exists():
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"{USER}@devcluster", "-f", str(self.key)],
                check=True, timeout=30, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        return self.key.with_suffix(".pub").read_text().strip()

    def remember(self, host: str, port: int) -> None:
        """Note where the login nodes answer."""
        self._address_file.write_text(json.dumps({"host": host, "port": port}))
        # Another instance may have had this address before, with other host keys.
        (self.folder / "known_hosts").unlink(missing_ok=True)

    def address(self) -> tuple[str, int]:
        """Return the host and port of the login nodes.

        Raises:
            StepFailed: When no stack is up yet.
        """
        if not self._address_file.exists():
            raise StepFailed("there is no login node yet: run 'make up' first")
        noted: dict[str, Any] = json.loads(self._address_file.read_text())
        return str(noted["host"]), int(noted["port"])

    def options(self) -> list[str]:
        """Return the SSH options that use only this instance's files."""
        pairs = {
            "IdentityFile": str(self.key),
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": str(self.folder / "known_hosts"),
            "StrictHostKeyChecking": "accept-new",
            "ConnectTimeout": str(CONNECT_DEADLINE_SECONDS),
            "ServerAliveInterval": "15",
            "LogLevel": "ERROR",
            # The first one of ssh's own list withstands quantum computers. It takes 90 ms of a core, and this one 14.
            "KexAlgorithms": "curve25519-sha256",
        }
        return ["-F", "none", *(word for name, value in pairs.items() for word in ("-o", f"{name}={value}"))]

    def ssh_command(self, *, user: str = USER) -> list[str]:
        """Return the command line that logs in as `user`."""
        host, port = self.address()
        return ["ssh", *self.options(), "-p", str(port), f"{user}@{host}"]

    def run_command(self, command: list[str], *, user: str = USER) -> list[str]:
        """Return the command line that runs `command` on a login node, each word passed as it is."""
        words = command if len(command) == 1 else [shlex.join(command)]
        return [*self.ssh_command(user=user), "-o", "BatchMode=yes", "--", *words]

    def copy_command(self, source: str, target: str) -> list[str]:
        """Return the command line of scp; a path on the login node starts with ':'."""
        host, port = self.address()
        places = [f"{USER}@{host}{place}" if place.startswith(":") else place for place in (source, target)]
        return ["scp", *self.options(), "-P", str(port), "-r", *places]
