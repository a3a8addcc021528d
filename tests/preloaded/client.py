"""Stands for a Python program that a preloaded server runs: its files, signals and exit code are the program's.

python -I -S client.py SOCKET ARGUMENTS-OF-PYTHON…

It imports little, since it starts at each command of Pulumi: socket, json and contextlib would take as long as itself.
"""

import _socket
import os
import select
import signal
import sys

LOOK_SECONDS = 1.0


def main() -> int:
    """Return the program's exit code."""
    parent = os.getppid()
    folder = os.getcwd()  # noqa: PTH109  # pathlib would add a quarter to what this program imports.
    asked = {"arguments": sys.argv[2:], "folder": folder, "environment": dict(os.environ)}
    message = ascii(asked).encode() + b"\n"
    files = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.connect(sys.argv[1])
    sent = connection.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
    connection.sendall(message[sent:])
    told = b""
    while told.count(b"\n") < 2:
        if select.select([connection], [], [], LOOK_SECONDS)[0]:
            more = connection.recv(64)
            if not more:
                return 1
            told += more
            if b"\n" in told:
                forward_signals(int(told.split(b"\n")[0]))
        elif os.getppid() != parent:
            return 1  # The program ends with this connection.
    code = int(told.split(b"\n")[1])
    return code if code >= 0 else 128 - code


def forward_signals(program: int) -> None:
    def forward(number: int, _: object) -> None:
        try:
            os.kill(program, number)
        except ProcessLookupError:
            return

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, forward)


if __name__ == "__main__":
    sys.exit(main())
