"""Copies an image's root with GNU tar, in chunks, so that an interrupted copy can resume."""

import json
import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from slurm_node.pod.durable import write_durably
from slurm_node.pod.log import NodeError, say
from slurm_node.pod.system import sync_file_system
from slurm_node.roots import image_root

PROGRESS_SECONDS = 2.0
NOTE_SECONDS = 30.0
COMMON = ("--numeric-owner", "--xattrs", "--xattrs-include=*", "--acls")
MEBIBYTE = 1 << 20
BARE = re.compile(r"Cannot set '.+' extended attribute for file '(.*)': ")


@dataclass(slots=True)
class Copy:
    """One copy of an image's root.

    Attributes:
        source: the image's root.
        target: the folder that becomes a root.
        journal: which chunks are done; it lies outside of the root.
        total: bytes to copy, for the progress line.
        done: parts that are there.
        bare: files whose extended attributes the storage does not keep.
    """

    source: Path
    target: Path
    journal: Path
    total: int
    done: set[str] = field(default_factory=set)
    bare: list[str] = field(default_factory=list)
    copied: int = 0
    started: float = 0.0
    told: float = 0.0

    def run(self) -> None:
        """Copies the chunks that are not done yet. `note` then makes their record durable.

        Raises:
            NodeError: tar failed; the text has its reason.
        """
        self.started = self.told = time.monotonic()
        if self.journal.exists():
            self.done = set(json.loads(self.journal.read_text()))
        if self.done:
            say(f"going on with a copy that was ended: {len(self.done)} parts are there")
        self.target.mkdir(parents=True, exist_ok=True)
        noted = self.started
        for group in self._groups():
            self._copy(group)
            self.done.update(group)
            if time.monotonic() - noted >= NOTE_SECONDS:
                self.note()
                noted = time.monotonic()
        self._tell(time.monotonic())

    def note(self) -> None:
        """Notes finished chunks once they are on the disk, so that noted chunks exist after a crash.

        Raises:
            OSError: the storage lost a write. The chunks since the last note are then copied again.
        """
        # The volume alone: sync(2) would also wait for every other file system of the node, a silent NFS among them.
        sync_file_system(self.target)
        write_durably(self.journal, json.dumps(sorted(self.done)))

    def _groups(self) -> list[list[str]]:
        """Returns the chunks still to copy. Small neighbours are joined, since each tar takes a moment."""
        groups: list[list[str]] = []
        folder = None
        for chunk in image_root.chunks(self.source):
            if chunk in self.done:
                continue
            # A split folder goes alone (its entry must not bring its content), and so do the parts of /usr/lib.
            parent = chunk.rpartition("/")[0]
            alone = chunk in image_root.SPLIT
            if not groups or alone or parent != folder or len(groups[-1]) >= 64:
                groups.append([])
            groups[-1].append(chunk)
            folder = None if alone else parent
        return groups

    def _copy(self, chunks: Sequence[str]) -> None:
        shallow = ["--no-recursion"] if chunks[0] in image_root.SPLIT else []
        source = ["tar", "-C", str(self.source), *COMMON, "--one-file-system", "--sparse", *_excludes(), *shallow]
        target = ["tar", "-C", str(self.target), *COMMON, "--preserve-permissions", "--delay-directory-restore"]
        # Files, since nobody reads while both programs run, and a full pipe would block them.
        with (
            tempfile.TemporaryFile() as reader_said,
            tempfile.TemporaryFile() as writer_said,
            subprocess.Popen(
                [*source, "-cf", "-", "--", *chunks], stdout=subprocess.PIPE, stderr=reader_said
            ) as reader,
            subprocess.Popen([*target, "--totals", "-xf", "-"], stdin=reader.stdout, stderr=writer_said) as writer,
        ):
            if reader.stdout:
                reader.stdout.close()
            self._watch(writer)
            # The writer first: if it fails, the reader only reports a broken pipe.
            written = _said(writer, writer_said, f"writing to {self.target}")
            self.copied += _total(written)
            self.bare += without_attributes(written)
            _said(reader, reader_said, "reading the jail image")

    def _watch(self, writer: "subprocess.Popen[bytes]") -> None:
        while writer.poll() is None:
            try:
                writer.wait(PROGRESS_SECONDS / 4)
            except subprocess.TimeoutExpired:
                now = time.monotonic()
                if now - self.told >= PROGRESS_SECONDS:
                    self.told = now
                    self._tell(now, _bytes_read(writer.pid))

    def _tell(self, now: float, moved: int = 0) -> None:
        copied = self.copied + moved
        rate = copied / MEBIBYTE / max(now - self.started, 0.001)
        share = min(100, 100 * copied // max(self.total, 1))
        say(f"copied {copied // MEBIBYTE} of {self.total // MEBIBYTE} MiB, {share} %, {rate:.0f} MiB/s")


def without_attributes(text: str) -> list[str]:
    """Returns the files whose extended attributes GNU tar could not set."""
    return [match[1] for line in text.splitlines() if (match := BARE.search(line))]


def _excludes() -> list[str]:
    return ["--anchored", *(f"--exclude={path}" for path in image_root.LEFT_OUT)]


def _said(process: "subprocess.Popen[bytes]", file: IO[bytes], what: str) -> str:
    """Waits for a tar to end and returns what it said.

    Raises:
        NodeError: it failed.
    """
    code = process.wait()
    file.seek(0)
    text = file.read().decode(errors="replace")
    if code != 0:
        raise NodeError(_sentence(what, text))
    return text


def _total(text: str) -> int:
    match = re.search(r"Total bytes read: (\d+)", text)
    return int(match[1]) if match else 0


def _bytes_read(process: int) -> int:
    try:
        fields = dict(line.split(": ") for line in Path(f"/proc/{process}/io").read_text().splitlines())
    except (OSError, ValueError):  # it has ended
        return 0
    return int(fields["rchar"])


def _sentence(what: str, text: str) -> str:
    lines = [line for line in text.splitlines() if "Exiting with failure status" not in line] or ["tar failed"]
    if "No space left on device" in text or "Disk quota exceeded" in text:
        return f"the jail volume is full ({lines[0]}): enlarge pulumi-slurm:jail.storage.size; the copy then goes on"
    return f"{what} failed: {lines[0]}"
