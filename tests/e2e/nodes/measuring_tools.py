"""The real fio and iperf3 in the jail, which has no network for their packages."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.image import roots

PROGRAMS = ("fio", "iperf3")
FOLDER = "/opt/measuring"
INSTALL = f"""
mkdir {FOLDER} && tar -C {FOLDER} -x && cd /usr/local/bin || exit
for name in {" ".join(PROGRAMS)}; do
    echo '#!/bin/sh' >$name
    echo 'exec {FOLDER}/ld-linux-* --library-path {FOLDER} {FOLDER}/'$name' "$@"' >>$name
    chmod 755 $name
done
"""
REMOVE = f"cd /usr/local/bin && rm -rf {FOLDER} {' '.join(PROGRAMS)}"


@contextlib.contextmanager
def installed(slurm) -> Iterator[None]:
    """Have Debian's programs in the jail, with libraries and the loader of their own."""
    try:
        command = slurm.cluster.login.run_command([shlex.join(["sudo", "sh", "-c", INSTALL])])
        subprocess.run(command, input=_packed(), check=True, timeout=120)
        yield
    finally:
        slurm.sh(f"sudo sh -c {shlex.quote(REMOVE)}").ok()


def _packed() -> bytes:
    """Return the programs with all that they load, as a tar file without folders."""
    with tempfile.TemporaryDirectory() as folder:
        root = roots.make("tools", Path(folder) / "root")
        programs = [f"/usr/bin/{name}" for name in PROGRAMS]
        loaded = _run(root, "ldd", *programs).decode().split()
        files = {word for word in loaded if word.startswith("/") and not word.endswith(":")}
        return _run(root, "tar", "--dereference", "--transform=s|.*/||", "-c", *programs, *sorted(files))


def _run(root: Path, *command: str) -> bytes:
    return subprocess.run(["chroot", root, *command], stdout=subprocess.PIPE, check=True, timeout=60).stdout
