"""Holds slurmd's port while the pod lives, so that no job takes the port while slurmd is away.

Jobs share the pod's network. A job that listened there would receive the scripts and environments of other jobs, and
slurmd could not start. Each slurmd gets this socket in place of its own. It is passed by the variable with which a
slurmd hands its socket to its successor.
"""

import socket
from contextlib import suppress

VARIABLE = "SLURMD_RECONF_LISTEN_FD"
BACKLOG = 4096
"""Slurm's own (SLURM_DEFAULT_LISTEN_BACKLOG); the kernel bounds it."""


def address(slurm_conf: str, hostname: str) -> tuple[socket.AddressFamily, str, int]:
    """Returns where slurmd listens: family, address and port, as CommunicationParameters say it (slurm.conf(5))."""
    settings = dict(line.split("=", 1) for line in slurm_conf.lower().splitlines() if "=" in line)
    words = settings.get("communicationparameters", "").split(",")
    family = socket.AF_INET6 if "enableipv6" in words else socket.AF_INET
    everywhere = "::" if family is socket.AF_INET6 else "0.0.0.0"  # noqa: S104 - it holds the port where slurmd listens
    host = hostname if "noinaddrany" in words else everywhere
    return family, host, int(settings["slurmdport"])


class HeldPort:
    """A socket that stays bound, and listens only while slurmd runs. Otherwise connections are refused at once."""

    def __init__(self, family: socket.AddressFamily, host: str, port: int) -> None:
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._share(True)
        self._socket.bind((host, port))
        self.listen()
        self.refuse()

    def listen(self) -> int:
        """Accepts connections again, and returns the file descriptor."""
        # Connections to the previous slurmd may still be closing.
        self._share(True)
        self._socket.listen(BACKLOG)
        return self._socket.fileno()

    def refuse(self) -> None:
        """Refuses connections, waiting ones included. Their clients take slurmd for down."""
        # Two sockets may be bound to one port if both allow it and neither listens.
        self._share(False)
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RD)

    def _share(self, shares: bool) -> None:
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, shares)
