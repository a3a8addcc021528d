"""Sends Slurm's authentication socket (sack) one request of each type. Lies beside rpc_client.py, in a jail.

Prints JSON: for each case the answer, in hex.
"""

import json
import os
import socket
import struct

import rpc_client as client  # type: ignore[import-not-found]  # Beside it in the jail.

CREATE, VERIFY = 64001, 64002
TYPES = (*range(16), *range(63990, 64070))
ZEROS = bytes(64)


def ask(kind: int, body: bytes) -> bytes:
    """Return the socket's answer: nothing if it closes, or refuses this process."""
    text = struct.pack("!I", kind) + body
    with socket.socket(socket.AF_UNIX) as sack:
        sack.settimeout(5)
        try:
            sack.connect(client.SACK)
            sack.sendall(struct.pack("!HI", client.VERSION, len(text) + 4) + text)
            return bytes(sack.recv(1024))
        except OSError:
            return b""


def packed(text: bytes) -> bytes:
    """A text as Slurm packs it."""
    return struct.pack("!I", len(text)) + text


def main() -> None:
    """Asks for all."""
    said = {str(kind): ask(kind, ZEROS) for kind in TYPES}
    try:
        own = client.credential(1, "own", b"x")
    except (OSError, EOFError):
        own = b""
    said["own token"] = own
    said["verify own"] = ask(VERIFY, packed(own))
    said["verify forged"] = ask(VERIFY, packed(client.of_root(own))) if own else b""
    print(json.dumps({"uid": os.getuid(), **{name: answer.hex() for name, answer in said.items()}}))


main()
