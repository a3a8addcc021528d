"""Temporary files of tests in memory: there, unpacking a root takes a tenth of the processor time that a disk costs."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from devcluster.vm import memory

MOST_BYTES = 10 << 30
"""Bound of the files, more than *image* needs; a machine without so much available uses its disk."""
MOUNT = 'mount -t tmpfs -o mode=1777,size="$0" tmpfs "$TMPDIR" && exec "$@"'


@dataclass(frozen=True, slots=True)
class Place:
    """A place of temporary files: a command has these words before its own, and these variables."""

    words: Sequence[str] = ()
    variables: tuple[tuple[str, str], ...] = ()


@contextlib.contextmanager
def place() -> Iterator[Place]:
    """Context with a place in memory, or with the usual one where memory is short.

    The mount is in a namespace of the command's own, and goes with its last process.
    """
    if os.geteuid() != 0 or min(bound.size for bound in memory.bounds()) < MOST_BYTES:
        yield Place()
        return
    with tempfile.TemporaryDirectory(prefix="suite-") as folder:
        unshared = ("unshare", "--mount", "--propagation", "private", "sh", "-c", MOUNT, str(MOST_BYTES))
        yield Place(unshared, (("TMPDIR", folder),))
