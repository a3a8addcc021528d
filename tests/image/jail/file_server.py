"""A fake of a distant file server, over a local folder. It speaks FUSE (linux/fuse.h), so nothing need be installed.

Each mount caches attributes and names for a while, and every answer is late. The server can go stale or silent, and
come back.

It behaves like NFS as the program mounts it (lookupcache=positive):

* A client does not cache absent names, and caches others for no longer than the cache's time.
* A process that opens a file reads what another one wrote and closed.
* A silent server answers later, and a process that waits for it can be killed.

Unlike NFS it has no locks between nodes, no silly rename, no lease and no grace period. A file that another node
deleted stays readable. tests/vm/nfs/test_nfs_fake.py compares it with the real one.

    python3 file_server.py FOLDER MOUNT LATENCY_SECONDS CACHE_SECONDS

It mounts, prints "mounted", and reads its moods from stdin, a word a line: well, stale, nameless (only names are
stale: files that are known answer), mute. What came while it was mute is answered when it is well again.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import select
import stat
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

IN_HEADER, OUT_HEADER = struct.Struct("<IIQQIIII"), struct.Struct("<IiQ")
LOOKUP, INIT, FORGET, INTERRUPT, BATCH_FORGET = 1, 26, 2, 36, 42
SETATTR = struct.Struct("<IIQQQQQQIIIIIIII")
OFFSET_SIZE = struct.Struct("<QQIIQII")
MODE, UID, GID, SIZE, ATIME, MTIME, ATIME_NOW, MTIME_NOW = 1, 2, 4, 8, 16, 32, 128, 256
ROOT = 1
MAX_WRITE = 65536

Answer = bytes | int


class Server:
    """One mount. Files are known by descriptors that outlive renames; the kernel's number of a file is its inode."""

    def __init__(self, folder: str, cache_seconds: float) -> None:
        self._nodes = {ROOT: os.open(folder, os.O_PATH)}
        self._listed: dict[int, list[bytes]] = {}
        self._valid = (int(cache_seconds), int(cache_seconds % 1 * 1e9))
        self._calls: dict[int, Callable[[int, bytes, int, int], Answer]] = {
            LOOKUP: self._lookup, 3: self._getattr, 4: self._setattr, 5: self._readlink, 6: self._symlink,
            8: self._mknod, 9: self._mkdir, 10: self._unlink, 11: self._rmdir, 12: self._rename, 13: self._link,
            14: self._open,
            15: self._read, 16: self._write, 17: self._statfs, 18: self._release, 20: self._nothing, 25: self._nothing,
            27: self._opendir, 28: self._readdir, 29: self._releasedir, 30: self._nothing, 35: self._create,
            45: self._rename2,
        }  # fmt: skip

    def answer(self, opcode: int, node: int, uid: int, gid: int, body: bytes) -> Answer:
        """The payload, or an error number."""
        if opcode == INIT:
            return struct.pack("<IIIIHHII", 7, 26, MAX_WRITE, 0, 0, 0, MAX_WRITE, 1) + bytes(36)
        call = self._calls.get(opcode)
        if call is None:
            return errno.ENOSYS
        try:
            return call(node, body, uid, gid)
        except KeyError:
            return errno.ESTALE
        except OSError as error:
            return error.errno or errno.EIO

    def _path(self, node: int) -> str:
        return f"/proc/self/fd/{self._nodes[node]}"

    @staticmethod
    def _attributes(facts: os.stat_result, node: int) -> bytes:
        times = (facts.st_atime_ns, facts.st_mtime_ns, facts.st_ctime_ns)
        return struct.pack(
            "<QQQQQQIIIIIIIIII", node, facts.st_size, facts.st_blocks, *(each // 10**9 for each in times),
            *(each % 10**9 for each in times), facts.st_mode, facts.st_nlink, facts.st_uid, facts.st_gid,
            facts.st_rdev, 4096, 0,
        )  # fmt: skip

    def _entry(self, parent: int, name: bytes) -> bytes:
        file = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=self._nodes[parent])
        facts = os.fstat(file)
        node = facts.st_ino
        if node in self._nodes:
            os.close(file)
        else:
            self._nodes[node] = file
        seconds, nanoseconds = self._valid
        return struct.pack("<QQQQII", node, 0, seconds, seconds, nanoseconds, nanoseconds) + self._attributes(
            facts, node
        )

    def _lookup(self, node: int, body: bytes, *_: int) -> Answer:
        return self._entry(node, body.rstrip(b"\0"))

    def _getattr(self, node: int, *_: object) -> Answer:
        return struct.pack("<QII", *self._valid, 0) + self._attributes(os.fstat(self._nodes[node]), node)

    def _setattr(self, node: int, body: bytes, *_: int) -> Answer:
        valid, _, _, size, _, atime, mtime, _, ansec, mnsec, _, mode, _, uid, gid, _ = SETATTR.unpack_from(body)
        path = self._path(node)
        if valid & (UID | GID):
            owner = (uid if valid & UID else -1, gid if valid & GID else -1)
            _chown(self._nodes[node], *owner)
        if valid & MODE:
            Path(path).chmod(stat.S_IMODE(mode))
        if valid & SIZE:
            os.truncate(path, size)
        if valid & (ATIME | MTIME | ATIME_NOW | MTIME_NOW) and not stat.S_ISLNK(os.fstat(self._nodes[node]).st_mode):
            now, facts = time.time_ns(), os.fstat(self._nodes[node])
            accessed = now if valid & ATIME_NOW else atime * 10**9 + ansec if valid & ATIME else facts.st_atime_ns
            modified = now if valid & MTIME_NOW else mtime * 10**9 + mnsec if valid & MTIME else facts.st_mtime_ns
            os.utime(path, ns=(accessed, modified))
        return self._getattr(node)

    def _readlink(self, node: int, *_: object) -> Answer:
        return os.readlink(b"", dir_fd=self._nodes[node])

    def _symlink(self, node: int, body: bytes, uid: int, gid: int) -> Answer:
        name, target, _ = body.split(b"\0", 2)
        os.symlink(target, name, dir_fd=self._nodes[node])
        return self._owned(node, name, uid, gid)

    def _mknod(self, node: int, body: bytes, uid: int, gid: int) -> Answer:
        mode, device, mask, _ = struct.unpack_from("<IIII", body)
        name = body[16:].rstrip(b"\0")
        os.mknod(name, mode & ~mask, device, dir_fd=self._nodes[node])
        return self._owned(node, name, uid, gid)

    def _mkdir(self, node: int, body: bytes, uid: int, gid: int) -> Answer:
        mode, mask = struct.unpack_from("<II", body)
        name = body[8:].rstrip(b"\0")
        os.mkdir(name, mode & ~mask, dir_fd=self._nodes[node])
        return self._owned(node, name, uid, gid)

    def _owned(self, node: int, name: bytes, uid: int, gid: int) -> bytes:
        os.chown(name, uid, gid, dir_fd=self._nodes[node], follow_symlinks=False)
        return self._entry(node, name)

    def _unlink(self, node: int, body: bytes, *_: int) -> Answer:
        os.unlink(body.rstrip(b"\0"), dir_fd=self._nodes[node])
        return b""

    def _rmdir(self, node: int, body: bytes, *_: int) -> Answer:
        os.rmdir(body.rstrip(b"\0"), dir_fd=self._nodes[node])
        return b""

    def _rename(self, node: int, body: bytes, *_: int) -> Answer:
        return self._move(node, struct.unpack_from("<Q", body)[0], body[8:])

    def _rename2(self, node: int, body: bytes, *_: int) -> Answer:
        target, flags, _ = struct.unpack_from("<QII", body)
        return errno.EINVAL if flags else self._move(node, target, body[16:])

    def _move(self, node: int, target: int, names: bytes) -> Answer:
        old, new, _ = names.split(b"\0", 2)
        os.rename(old, new, src_dir_fd=self._nodes[node], dst_dir_fd=self._nodes[target])
        return b""

    def _link(self, node: int, body: bytes, *_: int) -> Answer:
        name = body[8:].rstrip(b"\0")
        os.link(self._path(struct.unpack_from("<Q", body)[0]), name, dst_dir_fd=self._nodes[node], follow_symlinks=True)
        return self._entry(node, name)

    def _open(self, node: int, body: bytes, *_: int) -> Answer:
        flags = struct.unpack_from("<I", body)[0] & ~(os.O_NOFOLLOW | os.O_CREAT | os.O_EXCL | os.O_APPEND)
        return struct.pack("<QII", os.open(self._path(node), flags | os.O_CLOEXEC), 0, 0)

    def _create(self, node: int, body: bytes, uid: int, gid: int) -> Answer:
        flags, mode, mask, _ = struct.unpack_from("<IIII", body)
        name = body[16:].rstrip(b"\0")
        flags = flags & ~os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        file = os.open(name, flags, mode & ~mask, dir_fd=self._nodes[node])
        return self._owned(node, name, uid, gid) + struct.pack("<QII", file, 0, 0)

    def _read(self, _node: int, body: bytes, *_: int) -> Answer:
        file, offset, size, *_rest = OFFSET_SIZE.unpack_from(body)
        return os.pread(file, size, offset)

    def _write(self, _node: int, body: bytes, *_: int) -> Answer:
        file, offset, size, *_rest = OFFSET_SIZE.unpack_from(body)
        start = OFFSET_SIZE.size
        return struct.pack("<II", os.pwrite(file, body[start : start + size], offset), 0)

    def _release(self, _node: int, body: bytes, *_: int) -> Answer:
        os.close(struct.unpack_from("<Q", body)[0])
        return b""

    def _statfs(self, *_: object) -> Answer:
        facts = os.statvfs(self._path(ROOT))
        counts = (facts.f_blocks, facts.f_bfree, facts.f_bavail, facts.f_files, facts.f_ffree)
        return struct.pack("<QQQQQIIII", *counts, facts.f_bsize, 255, facts.f_frsize, 0) + bytes(24)

    def _opendir(self, node: int, *_: object) -> Answer:
        folder = os.open(self._path(node), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._listed[folder] = [os.fsencode(entry.name) for entry in os.scandir(folder)]
        return struct.pack("<QII", folder, 0, 0)

    def _readdir(self, _node: int, body: bytes, *_: int) -> Answer:
        folder, offset, size, *_rest = OFFSET_SIZE.unpack_from(body)
        listed = b""
        for number, name in enumerate(self._listed[folder][offset:], offset + 1):
            entry = struct.pack("<QQII", number, number, len(name), 0) + name
            entry += bytes(-len(entry) % 8)
            if len(listed) + len(entry) > size:
                break
            listed += entry
        return listed

    def _releasedir(self, _node: int, body: bytes, *_: int) -> Answer:
        folder = struct.unpack_from("<Q", body)[0]
        del self._listed[folder]
        os.close(folder)
        return b""

    def _nothing(self, *_: object) -> Answer:
        return b""


def _chown(file: int, uid: int, gid: int) -> None:
    at_empty_path = 0x1000
    if ctypes.CDLL(None, use_errno=True).fchownat(file, b"", uid, gid, at_empty_path):
        raise OSError(ctypes.get_errno(), "chown")


class Line:
    """Between the kernel and the server: the mood, and what waits for a better one."""

    def __init__(self, device: int, server: Server, latency: float) -> None:
        self._device, self._server, self._latency = device, server, latency
        self._mood, self._changed = "well", threading.Condition()

    def set_mood(self, mood: str) -> None:
        """Changes the mood; whoever waited is answered unless it is mute."""
        with self._changed:
            self._mood = mood
            self._changed.notify_all()

    def serve(self) -> None:
        """Answers the kernel until the mount is gone."""
        while True:
            select.select([self._device], [], [])
            with self._changed:
                # What nobody has taken from the kernel can be killed while it waits, as on a hard mount.
                self._changed.wait_for(lambda: self._mood != "mute")
                try:
                    request = os.read(self._device, 1 << 18)
                except BlockingIOError:  # it was killed
                    continue
                except OSError:
                    return
                if IN_HEADER.unpack_from(request)[1] not in (FORGET, INTERRUPT, BATCH_FORGET):
                    time.sleep(self._latency)  # What the server is for: storage far away.
                    self._reply(request)

    def _reply(self, request: bytes) -> None:
        _, opcode, unique, node, uid, gid, _, _ = IN_HEADER.unpack_from(request)
        stale = self._mood == "stale" or (self._mood == "nameless" and opcode == LOOKUP)
        said = errno.ESTALE if stale else self._server.answer(opcode, node, uid, gid, request[IN_HEADER.size :])
        error, payload = (-said, b"") if isinstance(said, int) else (0, said)
        with contextlib.suppress(FileNotFoundError):  # who asked has been killed
            os.write(self._device, OUT_HEADER.pack(OUT_HEADER.size + len(payload), error, unique) + payload)


def main(folder: str, mount: str, latency: float, cache_seconds: float) -> None:
    """Mounts and serves until stdin ends."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    os.umask(0)
    device = os.open("/dev/fuse", os.O_RDWR | os.O_NONBLOCK)
    options = f"fd={device},rootmode=40755,user_id=0,group_id=0,allow_other,default_permissions".encode()
    if ctypes.CDLL(None, use_errno=True).mount(b"far", mount.encode(), b"fuse", 0, options):
        raise OSError(ctypes.get_errno(), "mount")
    line = Line(device, Server(folder, cache_seconds), latency)
    threading.Thread(target=line.serve, daemon=True).start()
    print("mounted", flush=True)
    for mood in sys.stdin:
        line.set_mood(mood.strip())
        print(mood.strip(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
