"""A fake of a file server in trouble: it mounts, and then does not answer, or says that its handles are stale.

It speaks FUSE (linux/fuse.h), so that nothing need be installed.

    python3 mute_file_system.py FOLDER well|stale|mute [WELL_SECONDS]

It mounts, prints "mounted", and serves one folder. The files that a jail's check looks at are links to nothing there.
"""

import ctypes
import errno
import os
import stat
import struct
import sys
import threading
import time

IN_HEADER, OUT_HEADER = struct.Struct("<IIQQIIII"), struct.Struct("<IiQ")
INIT, GETATTR, STATFS, OPENDIR = 26, 3, 17, 27
UNANSWERED = {2, 36, 42}
"""FORGET, INTERRUPT, BATCH_FORGET."""
FOLDER, DIRECTORY = 1, stat.S_IFDIR | 0o755


def attributes() -> bytes:
    """fuse_attr_out of a folder, valid for no time: the kernel asks again each time."""
    attr = struct.pack("<QQQQQQIIIIIIIIII", FOLDER, 0, 0, 0, 0, 0, 0, 0, 0, DIRECTORY, 2, 0, 0, 0, 4096, 0)
    return struct.pack("<QII", 0, 0, 0) + attr


def answer(opcode: int, mood: str) -> bytes | int | None:
    """The answer's payload, an error number, or None for none at all."""
    if opcode == INIT:
        return struct.pack("<IIIIHHII", 7, 26, 65536, 0, 0, 0, 65536, 1) + bytes(36)
    if mood == "mute":
        return None
    if mood == "stale":
        return errno.ESTALE
    if opcode == GETATTR:
        return attributes()
    if opcode == STATFS:
        return struct.pack("<QQQQQIIII", 1, 1, 1, 1, 1, 4096, 255, 4096, 0) + bytes(24)
    return struct.pack("<QII", 0, 0, 0) if opcode == OPENDIR else errno.ENOENT


def main(folder: str, mood: str, well_seconds: float) -> None:
    """Mounts and serves until the mount is gone."""
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40755,user_id=0,group_id=0,allow_other".encode()
    if ctypes.CDLL(None, use_errno=True).mount(b"mute", folder.encode(), b"fuse", 6, options):
        raise OSError(ctypes.get_errno(), "mount")
    until = time.monotonic() + well_seconds
    threading.Thread(target=serve, args=(device, mood, until), daemon=True).start()
    print("mounted", flush=True)
    sys.stdin.read()


def serve(device: int, mood: str, until: float) -> None:
    """Answers the kernel."""
    while True:
        try:
            request = os.read(device, 1 << 17)
        except OSError:
            return
        _, opcode, unique, *_ = IN_HEADER.unpack_from(request)
        if opcode in UNANSWERED:
            continue
        said = answer(opcode, mood if time.monotonic() > until else "well")
        if said is None:
            continue
        payload = b"" if isinstance(said, int) else said
        error = -said if isinstance(said, int) else 0
        os.write(device, OUT_HEADER.pack(OUT_HEADER.size + len(payload), error, unique) + payload)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]) if len(sys.argv) > 3 else 0)
