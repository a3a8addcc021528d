"""Records which process opens which file below a mount, for all processes and without tracing any.

fanotify(7) with permission events stops each process while its capabilities are read.
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_LIBC = ctypes.CDLL(None, use_errno=True)
_EVENT, _RESPONSE = struct.Struct("=IBBHQii"), struct.Struct("=iI")
FAN_CLASS_CONTENT, FAN_CLOEXEC = 0x4, 0x1
FAN_MARK_ADD, FAN_MARK_FILESYSTEM = 0x1, 0x100
FAN_OPEN_PERM, FAN_OPEN_EXEC_PERM, FAN_ALLOW = 0x10000, 0x40000, 0x1
AT_FDCWD = -100
SYS_ADMIN = 1 << 21


@dataclass(frozen=True)
class Open:
    """One open: the program, the file below the mount, and whether the process held SYS_ADMIN."""

    program: str
    path: str
    privileged: bool


class Watch:
    """All opens in one file system, from entering the context to leaving it."""

    def __init__(self, mount: Path) -> None:
        self._mount = mount
        self.opens: list[Open] = []

    def __enter__(self) -> Self:
        self._group = _checked(_LIBC.fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC, os.O_RDONLY | os.O_CLOEXEC))
        mask = ctypes.c_uint64(FAN_OPEN_PERM | FAN_OPEN_EXEC_PERM)
        where = os.fsencode(self._mount)
        _checked(_LIBC.fanotify_mark(self._group, FAN_MARK_ADD | FAN_MARK_FILESYSTEM, mask, AT_FDCWD, where))
        self._end_read, self._end_write = os.pipe()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._end_write)
        self._thread.join()
        os.close(self._end_read)

    def _serve(self) -> None:
        import select

        try:
            while True:
                ready, _, _ = select.select([self._group, self._end_read], [], [])
                if self._group not in ready:
                    return
                buffer = os.read(self._group, 1 << 16)
                while buffer:
                    length, _, _, _, _, file, process = _EVENT.unpack_from(buffer)
                    buffer = buffer[length:]
                    try:
                        self.opens.append(_describe(file, process))
                    finally:
                        os.write(self._group, _RESPONSE.pack(file, FAN_ALLOW))
                        os.close(file)
        finally:
            os.close(self._group)  # whoever still waits for an answer goes on


def _describe(file: int, process: int) -> Open:
    path = str(Path(f"/proc/self/fd/{file}").readlink())
    try:
        program = str(Path(f"/proc/{process}/exe").readlink())
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return Open("gone", path, privileged=False)
    permitted = next(line for line in status.splitlines() if line.startswith("CapPrm:")).split()[1]
    return Open(program, path, bool(int(permitted, 16) & SYS_ADMIN))


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), "fanotify")
    return result
