"""sshd sees one address in all of the loopback's (native/login/sshd_peers.c)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PEER = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
port, client = socket.socket(family), socket.socket(family)
port.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
port.listen()
client.bind((sys.argv[1], 0))
client.connect(port.getsockname())
print(port.accept()[0].getpeername()[0])
"""


@pytest.mark.parametrize(("address", "seen"), [("127.0.0.1", "127.0.0.1"), ("127.9.8.7", "127.0.0.1"), ("::1", "::1")])
def test_all_addresses_of_the_loopback_are_one(
    make: Callable[..., Path], tmp_path: Path, address: str, seen: str
) -> None:
    library = make("sshd_guard.so", tmp_path)
    found = subprocess.run(
        [sys.executable, "-c", PEER, address],
        capture_output=True, text=True, timeout=60, check=True, env={**os.environ, "LD_PRELOAD": str(library)},
    )  # fmt: skip
    assert found.stdout.strip() == seen
