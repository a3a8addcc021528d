"""The images that each new node of this machine begins with: imported once, then shared by hard links.

An import costs half a minute of a core and 4 GiB. What containerd has unpacked it only reads: layers are lower folders
of an overlay, and contents are named by their hash. It writes its databases, so each node has copies of those.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from devcluster.machine.lock import locked
from devcluster.machine.progress import Step, StepFailed
from devcluster.node import containerd

STORES_KEPT = 2
READY_SECONDS = 30
END_SECONDS = 30
LINK_SECONDS = 300
_ROOT = "containerd"
_CONFIGURATION = """\
version = 2
root = "{root}"
state = "{scratch}/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"]
[grpc]
  address = "{scratch}/socket"
"""


def prepare(state: Path, cache: Path, archives: Sequence[Path], program: Path) -> Path | None:
    """Return the folder with these images as containerd keeps them. It is made if it is not there.

    Args:
        state: The folder of an instance, which may not exist yet.
        cache: Folder that outlives the checkout.
        archives: Image archives; a name tells what is in it.
        program: The machine's containerd.

    Returns:
        None for a node that has its images, or whose file system is not the cache's, as in a guest.

    Raises:
        StepFailed: An archive can't be imported, or does not fit on the disk.
    """
    if (state / _ROOT).exists() or _device(state) != _device(cache):
        return None
    names = "\n".join(sorted(archive.name for archive in archives))
    stores = cache / "images" / "stores"
    store = stores / hashlib.sha256(names.encode()).hexdigest()[:16]
    with locked(stores / ".lock", "images: waiting for another import into the same cache"):
        for left in stores.glob("*.part"):  # by a process that was killed
            shutil.rmtree(left)
        if not store.exists():
            with Step("importing the images, once for all nodes of this machine"):
                _make(store, _newest(stores)[:1], archives, program)
        os.utime(store)
        for old in _newest(stores)[STORES_KEPT:]:
            shutil.rmtree(old)
    return store


def fill(state: Path, store: Path) -> None:
    """Give a new node the images of a store, before its containerd starts.

    Raises:
        StepFailed: It does not fit on the disk.
    """
    if not (state / _ROOT).exists():
        _link(store, state)


def _device(path: Path) -> int:
    while not path.exists():
        path = path.parent
    return path.stat().st_dev


def _newest(stores: Path) -> list[Path]:
    whole = [path for path in stores.iterdir() if path.is_dir() and not path.suffix]
    return sorted(whole, key=lambda path: path.stat().st_mtime, reverse=True)


def _link(source: Path, target: Path) -> None:
    unfinished = target / f"{_ROOT}.part"
    shutil.rmtree(unfinished, ignore_errors=True)
    _copy("-al", source / _ROOT, unfinished)
    for database in (source / _ROOT).glob("*/*.db"):
        _copy("-a", "--remove-destination", database, unfinished / database.parent.name / database.name)
    shutil.copy(source / containerd.RECORD, target / containerd.RECORD)
    unfinished.rename(target / _ROOT)


def _copy(*arguments: str | Path) -> None:
    done = subprocess.run(["cp", *arguments], capture_output=True, text=True, timeout=LINK_SECONDS, check=False)
    if done.returncode != 0:
        raise StepFailed(f"images for the node: {done.stderr.strip()}")


def _make(store: Path, older: Sequence[Path], archives: Sequence[Path], program: Path) -> None:
    """Begins with what an older store has: most images are in it."""
    unfinished = store.with_suffix(".part")
    unfinished.mkdir()
    for source in older:
        _link(source, unfinished)
    with running(program, unfinished / _ROOT) as ctr:
        record = unfinished / containerd.RECORD
        wanted = {name for archive in archives for name in containerd.load(archive, record, ctr)}
        others = sorted(set(containerd.run([*ctr, "images", "ls", "-q"]).split()) - wanted)
        if others:
            containerd.run([*ctr, "images", "rm", "--sync", *others])
        loaded = json.loads(record.read_text())
        record.write_text(json.dumps({key: names for key, names in loaded.items() if set(names) <= wanted}, indent=1))
    unfinished.rename(store)


@contextmanager
def running(program: Path, root: Path) -> Iterator[list[str]]:
    """Run a containerd on such a folder, without Kubernetes. Yields the beginning of ctr's command lines."""
    with tempfile.TemporaryDirectory(prefix="image-store-") as scratch:
        configuration = Path(scratch, "containerd.toml")
        configuration.write_text(_CONFIGURATION.format(root=root, scratch=scratch))
        with Path(scratch, "log").open("w+") as log:
            daemon = subprocess.Popen([program, "--config", configuration], stdout=log, stderr=log)
            try:
                ctr = containerd.ctr_command(f"{scratch}/socket")
                _await(daemon, ctr, Path(log.name))
                yield ctr
            finally:
                daemon.send_signal(signal.SIGTERM)
                try:
                    daemon.wait(END_SECONDS)
                except subprocess.TimeoutExpired:
                    daemon.kill()
                    daemon.wait()
                    raise StepFailed(f"containerd did not end within {END_SECONDS} s") from None


def _await(daemon: subprocess.Popen[bytes], ctr: Sequence[str], log: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            containerd.run([*ctr, "version"])
        except StepFailed:
            if daemon.poll() is not None or time.monotonic() > deadline:
                lines = log.read_text().splitlines()
                raise StepFailed(f"containerd does not start: {lines[-1] if lines else 'no word'}") from None
            time.sleep(0.1)  # containerd has no event for its socket.
        else:
            return
