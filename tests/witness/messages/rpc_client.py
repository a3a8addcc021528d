"""Speaks Slurm's wire format to a daemon: USER ADDRESS PORT PLAN OUT. Runs in a jail, with its Python alone.

PLAN is a list of [label, type, token, body in hex]; OUT gets a line for each: the label and what came of it.
Numbers are in network order; texts have their length before them, which counts the zero at the end.
"""

import base64
import json
import os
import socket
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

VERSION = 45 << 8
"""Of the wire format; slurmd answers nothing to another."""
SACK, SACK_CREATE, ANY_READER = "/run/slurm/sack.socket", 64001, 0xFFFFFFFF
AUTH_SLURM, K12, NO_AUTH_CRED = 103, 2, 1 << 6
NO_HASH = 1
"""Kind of the hash of Slurm before K12: the message's type alone."""
RETURN_CODE = 8001
RATE, ROUNDS, ALL = 168, 12, (1 << 64) - 1
Result = TypeVar("Result")


def whole(stream: socket.socket, size: int) -> bytes:
    """Reads so many bytes."""
    got = b""
    while len(got) < size:
        part = stream.recv(size - len(got))
        if not part:
            raise EOFError
        got += part
    return got


def turn(word: int, by: int) -> int:
    """Rotates 64 bits to the left."""
    return (word << by | word >> (64 - by)) & ALL if by else word


def constants() -> list[int]:
    """Those of Keccak's last rounds."""
    state, found = 1, []
    for _ in range(24):
        word = 0
        for power in range(7):
            if state & 1:
                word |= 1 << ((1 << power) - 1)
            state = state << 1 ^ (0x171 if state >> 7 else 0)
        found.append(word)
    return found[-ROUNDS:]


CONSTANTS = constants()


def permuted(a: list[int]) -> list[int]:
    """Keccak-p[1600, 12] (FIPS 202)."""
    for constant in CONSTANTS:
        c = [a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20] for x in range(5)]
        d = [c[x - 1] ^ turn(c[(x + 1) % 5], 1) for x in range(5)]
        a = [word ^ d[place % 5] for place, word in enumerate(a)]
        x, y, current = 1, 0, a[1]
        for step in range(24):
            x, y = y, (2 * x + 3 * y) % 5
            current, a[x + 5 * y] = a[x + 5 * y], turn(current, (step + 1) * (step + 2) // 2 % 64)
        for row in range(0, 25, 5):
            b = a[row : row + 5]
            for x in range(5):
                a[row + x] = b[x] ^ (~b[(x + 1) % 5] & ALL & b[(x + 2) % 5])
        a[0] ^= constant
    return a


def bound(text: bytes, custom: bytes) -> bytes:
    """KangarooTwelve of a message of one chunk: the hash by which Slurm binds a token to its message."""
    text += custom + bytes([len(custom), 1]) + b"\x07"
    text += bytes(-len(text) % RATE)
    text = text[:-1] + bytes([text[-1] ^ 0x80])
    state = [0] * 25
    for start in range(0, len(text), RATE):
        for place, word in enumerate(struct.unpack("<21Q", text[start : start + RATE])):
            state[place] ^= word
        state = permuted(state)
    return struct.pack("<4Q", *state[:4])


def token(digest: bytes) -> bytes:
    """Return the token that Slurm's socket (sackd's or slurmd's) gives this process for a hash."""
    text = struct.pack("!III", SACK_CREATE, ANY_READER, len(digest)) + digest
    with socket.socket(socket.AF_UNIX) as sack:
        sack.settimeout(5)
        sack.connect(SACK)
        sack.sendall(struct.pack("!HI", VERSION, len(text) + 4) + text)
        return whole(sack, struct.unpack("!I", whole(sack, 4))[0])


def of_root(own: bytes) -> bytes:
    """The token with another id in it, under the signature that it had."""
    head, claims, signature = own.rstrip(b"\0").split(b".")
    said = json.loads(base64.urlsafe_b64decode(claims + b"=" * (-len(claims) % 4)))
    changed = base64.urlsafe_b64encode(json.dumps({**said, "uid": 0, "gid": 0}).encode()).rstrip(b"=")
    return b".".join((head, changed, signature)) + b"\0"


def credential(kind: int, how: str, body: bytes) -> bytes:
    """The token that goes with a message: the sender's own, a forged one, one that binds nothing, or none."""
    if how == "none":
        return b""
    hashes = {
        "null hash": b"",
        "zero hash": bytes([NO_HASH]) + struct.pack("!H", kind),
        "moved": bytes([K12]) + bound(body, struct.pack("!H", kind + 1)),
    }
    own = token(hashes.get(how, bytes([K12]) + bound(body, struct.pack("!H", kind))))
    return of_root(own) if how == "forged" else own


def answer(kind: int, own: bytes, body: bytes, daemon: socket.socket) -> str:
    """Return what a daemon said: a return code, the type of a message, or that it closed."""
    auth = struct.pack("!II", AUTH_SLURM, len(own)) + own if own else b""
    message = struct.pack("!HHHIHHH", VERSION, 0 if own else NO_AUTH_CRED, kind, len(body), 0, 0, 0) + auth + body
    try:
        daemon.settimeout(5)
        daemon.sendall(struct.pack("!I", len(message)) + message)
        said = whole(daemon, struct.unpack("!I", whole(daemon, 4))[0])
    except TimeoutError:
        return "no answer"
    except (OSError, EOFError):
        return "closed"
    kind, size = struct.unpack("!HI", said[4:10])
    return str(struct.unpack("!I", said[-4:])[0]) if kind == RETURN_CODE and size == 4 else f"message {kind}"


def within(seconds: float, ask: Callable[[], Result]) -> Result | None:
    """Tries until it works, for so long."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return ask()
        except (OSError, EOFError):
            if time.monotonic() > deadline:
                return None
            time.sleep(0.1)  # Between two tries: a daemon that starts tells nobody.


def main(user: int, address: tuple[str, int], plan: Path, out: Path) -> None:
    """Sends all of a plan; whoever finds the daemon gone says so of the message before."""
    if user != os.getuid() or user != os.geteuid():
        os.setgid(user)
        os.setuid(user)

    def reach(seconds: float) -> socket.socket | None:
        return within(seconds, lambda: socket.create_connection(address, 5))

    before = ""
    with out.open("w") as log:
        for label, kind, how, hexadecimal in [*json.loads(plan.read_text()), ("", 0, "none", "")]:
            body = bytes.fromhex(hexadecimal)
            own = within(0, lambda: credential(kind, how, body))  # noqa: B023 - called before the loop goes on
            daemon = reach(0)
            if daemon is None and before:
                print(before, "ended", file=log, flush=True)
                daemon = reach(60)
                own = within(60, lambda: credential(kind, how, body))  # noqa: B023 - called before the loop goes on
            if label:
                said = "no token" if own is None else answer(kind, own, body, daemon) if daemon else "closed"
                print(label, said, file=log, flush=True)
                before = label if daemon else ""
            if daemon:
                daemon.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), (sys.argv[2], int(sys.argv[3])), Path(sys.argv[4]), Path(sys.argv[5]))
