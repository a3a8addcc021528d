"""Measures NFS mount options on a kernel's own server: their cost, and the delay until another node sees changes.

Prints the table of docs/nfs.md. It takes root, a kernel with NFS (tests/vm), and about seven minutes:

    python -m bench.storage.nfs_options
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.vm.nfs.nfs_cluster import VERSIONS
from tests.vm.nfs.nfs_server import NfsServer

OPTIONS = (
    "",
    "actimeo=3",
    "actimeo=1",
    "acdirmin=1,acdirmax=3",
    "lookupcache=positive",
    "lookupcache=positive,actimeo=3",
    "lookupcache=positive,actimeo=1",
    "lookupcache=none",
)
PATIENCE_SECONDS = 60.0
TRIES = 2
AGE_SECONDS = 4.0
"""Age of a file's attributes, longer than any of these options trusts them."""
FOLDERS, FILES = 200, 10
HEAD = (
    "| version | options | new name | changed size | replaced file, opened | calls for 2,000 absent names "
    "| for `find` over 2,000 files |"
)


def seconds_until(condition: Callable[[], bool]) -> float:
    """Return the seconds until a condition holds; infinite after PATIENCE_SECONDS."""
    started = time.monotonic()
    while not condition():
        if time.monotonic() - started > PATIENCE_SECONDS:
            return float("inf")
        time.sleep(0.05)  # Between two looks, which are what is measured.
    return time.monotonic() - started


def calls(mount: Path) -> int:
    """Calls to the server so far, of all operations (mountstats, first number of each line)."""
    count, ours = 0, False
    for line in Path("/proc/self/mountstats").read_text().splitlines():
        if line.startswith("device "):
            ours = f" {mount} " in line
        elif ours and line.startswith("\t") and ":" in line:
            name, _, numbers = line.strip().partition(":")
            # READ: 3 3 0 …; statistics of the transport and of capabilities are in small letters.
            if name.isupper() and len(numbers.split()) >= 8:
                count += int(numbers.split()[0])
    return count


def cost(mount: Path, work: Callable[[], object]) -> str:
    """Return the calls to the server for some work. A call's duration would depend on the network."""
    before = calls(mount)
    work()
    return f"{calls(mount) - before:,}"


def new_name(first: Path, second: Path, number: int) -> float:
    """Return the delay until a node finds another node's new program, after it looked for it in vain."""
    name = f"bin/program-{number}"
    for _ in range(5):
        assert not (second / name).exists()
        time.sleep(0.3)  # Like a person who tries again. Each look makes a client remember the answer for longer.
    (first / name).write_text("#!/bin/sh\n")
    return seconds_until((second / name).exists)


def changed_size(first: Path, second: Path) -> float:
    """Return the delay until a node that reads a file's size sees another node's writes."""
    (first / "log").write_text("12345")
    assert (second / "log").stat().st_size == 5
    with (first / "log").open("a") as log:
        log.write("67890")
    return seconds_until(lambda: (second / "log").stat().st_size == 10)


def replaced(first: Path, second: Path) -> float:
    """Return the delay until a node that opens a file reads another node's replacement."""
    (first / "conf").write_text("old")
    assert (second / "conf").read_text() == "old"
    (first / "conf.new").write_text("newer")
    (first / "conf.new").rename(first / "conf")
    return seconds_until(lambda: (second / "conf").read_text() == "newer")


def row(server: NfsServer, folder: Path, version: str, options: str) -> str:
    """Measures one set of options."""
    wanted = ",".join(filter(None, (f"vers={version}", "hard", options)))
    first, second = (server.mount(node, folder / node, wanted) for node in server.nodes)
    absent = [second / f"tree/{i}/absent-{j}" for i in range(FOLDERS) for j in range(FILES)]
    for path in absent:
        path.exists()
    time.sleep(AGE_SECONDS)  # Until no attribute is trusted any more.
    costs = [
        cost(second, lambda: [path.exists() for path in absent]),
        cost(second, lambda: subprocess.run(["find", second / "tree", "-empty"], check=True)),
    ]
    for name in ("bin", "bin/other"):
        os.utime(server.export / name, (1, 1))
    worst = 0.0
    for _ in range(TRIES):
        # One try without success in time is enough.
        worst = max(worst, new_name(first, second, time.monotonic_ns()) if worst <= PATIENCE_SECONDS else 0.0)
    times = [worst, changed_size(first, second), replaced(first, second)]
    for mount in (first, second):
        server.unmount(mount)
    shown = [f"> {PATIENCE_SECONDS:.0f} s" if seconds == float("inf") else f"{seconds:.1f} s" for seconds in times]
    return " | ".join([f"| {version}", f"`{options}`" if options else "none", *shown, *costs]) + " |"


def main() -> int:
    """Prints the whole table."""
    print(HEAD + "\n|" + "---|" * 7, flush=True)
    with tempfile.TemporaryDirectory() as scratch, NfsServer(Path(scratch) / "nfs", ("node-1", "node-2")) as server:
        (server.export / "bin").mkdir()
        (server.export / "bin/other").touch()
        for i in range(FOLDERS):
            (server.export / f"tree/{i}").mkdir(parents=True)
            for j in range(FILES):
                (server.export / f"tree/{i}/{j}").write_text("x")
        for version in VERSIONS:
            for options in OPTIONS:
                print(row(server, Path(scratch), version, options), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
