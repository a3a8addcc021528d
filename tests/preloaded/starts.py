"""A `python3` that has Pulumi's programs and the stand-in forked from processes that have imported them."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from devcluster.machine.bootstrap import CHECKOUT
from tests.known_packages import python_that_knows_its_packages

CLIENT = Path(__file__).parent / "client.py"
SERVERS = 2
"""Each has its own order of sets, as each process of Python has: a program's order must not decide a plan."""
OWN_PROCESSES = "TESTS_OWN_PROCESSES"
"""Variable for programs and a stand-in that start as they do for users."""
PYTHON = """\
#!/bin/sh
case "${{{own}:-}} $*" in
" "*/pulumi-language-python-exec\\ * | " -P -m devcluster.standin "* | " -u -m pulumi.dynamic "*) ;;
*) exec {python} "$@" ;;
esac
exec {real} -I -S {client} {sockets}/$(($$ % {servers})) "$@"
"""


@contextlib.contextmanager
def preloaded_python(folder: Path) -> Iterator[Path]:
    """Context with a folder for PATH whose `python3` forks; its processes have the checkout as PYTHONPATH."""
    inner, sockets = folder / "inner", folder / "sockets"
    inner.mkdir()
    sockets.mkdir()
    python = python_that_knows_its_packages(inner) / "python3"
    program = folder / "python3"
    program.write_text(
        PYTHON.format(
            own=OWN_PROCESSES, python=python, real=sys.executable, client=CLIENT, sockets=sockets, servers=SERVERS
        )
    )
    program.chmod(0o755)
    with contextlib.ExitStack() as running:
        started = [running.enter_context(_server(sockets / str(number))) for number in range(SERVERS)]
        for each in started:
            assert each.stdout is not None
            assert each.stdout.readline() == b"ready\n", f"{each.args} ended"
        yield folder


@contextlib.contextmanager
def _server(socket: Path) -> Iterator[subprocess.Popen[bytes]]:
    # It ends with this worker, however that ends.
    command = ["setpriv", "--pdeathsig", "KILL", "--", sys.executable, "-m", "tests.preloaded.server", str(socket)]
    environment = {"PYTHONPATH": str(CHECKOUT), "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(command, cwd="/", env=environment, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.terminate()
