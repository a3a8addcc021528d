"""Forks Python programs from a process that has imported Pulumi: imports take most of a small program's time.

python -m tests.preloaded.server SOCKET
"""

from __future__ import annotations

import array
import ast
import atexit
import contextlib
import gc
import importlib
import io
import os
import runpy
import select
import signal
import socket
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

import devcluster.standin

MODULES = (
    "pulumi",
    "pulumi_kubernetes.apiextensions",
    "pulumi_kubernetes.apps.v1",
    "pulumi_kubernetes.batch.v1",
    "pulumi_kubernetes.core.v1",
    "pulumi_kubernetes.rbac.v1",
    "components.slurm_cluster",
    f"{devcluster.standin.__name__}.server",
)


def main() -> None:
    """Listen at a Unix socket, until somebody ends the process."""
    sys.modules["httpx._main"] = None  # type: ignore[assignment]  # As the stand-in does.
    for name in MODULES:
        importlib.import_module(name)
    # A thread would not be in what is forked, and whatever it holds would stay locked.
    assert threading.active_count() == len([*Path("/proc/self/task").iterdir()]) == 1
    gc.freeze()
    signal.signal(signal.SIGCHLD, _reap)  # To ignore the signal would hide how much they computed.
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(sys.argv[1])
        listening.listen()
        print("ready", flush=True)  # Whoever started this waits for it.
        while True:
            connection, _ = listening.accept()
            if os.fork():
                connection.close()
                continue
            listening.close()
            _watch(connection)


def _reap(*_: object) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _watch(connection: socket.socket) -> None:
    """Run the client's program as a child, tell its exit code, and end it where the client ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    message, descriptors = _received(connection)
    program = os.fork()
    if not program:
        connection.close()
        _become(message, descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    ended = os.pidfd_open(program)
    with contextlib.suppress(OSError):  # A client that is gone is seen below.
        connection.sendall(b"%d\n" % program)
    ready, _, _ = select.select([ended, connection], [], [])
    if ended not in ready:
        signal.pidfd_send_signal(ended, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
    with contextlib.suppress(OSError):
        connection.sendall(b"%d\n" % code)
    os._exit(0)


def _received(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return what the client wants to run, and its standard files."""
    size = array.array("i").itemsize
    content, descriptors, _, _ = socket.recv_fds(connection, 1 << 16, 3 * size)
    while not content.endswith(b"\n"):
        more = connection.recv(1 << 16)
        if not more:
            os._exit(1)
        content += more
    return ast.literal_eval(content.decode()), descriptors


def _become(message: dict[str, Any], descriptors: list[int]) -> None:
    """Run a program in this process as Python does, and end."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(message["folder"])
    os.environ.clear()
    os.environ.update(message["environment"])
    code = 1
    try:
        _run(message["arguments"])
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            sys.stderr.write(f"{ended.code}\n")
    except BaseException:
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]  # As the interpreter does, and forks of multiprocessing.
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _run(arguments: list[str]) -> None:
    # Tests replace a program within a second, and compiled files know their source by its second and size.
    sys.dont_write_bytecode = True
    match arguments:
        case ["-P", "-m", module, *rest]:
            sys.argv = [module, *rest]
            sys.path.pop(0)
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["-u", "-m", module, *rest]:
            sys.argv = [module, *rest]
            sys.path[0] = str(Path.cwd())
            sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), write_through=True)
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case [program, *_]:
            sys.argv = arguments
            sys.path[0] = str(Path(program).parent)
            runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
