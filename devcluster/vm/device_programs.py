"""eBPF programs that decide which device files the processes of a control group open, as Slurm's on cgroup v2 do."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Sequence
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_SYS_BPF = 321
"""Of Linux on x86-64 (asm/unistd_64.h)."""
_PROG_LOAD, _PROG_ATTACH = 5, 8
_PROG_TYPE_CGROUP_DEVICE, _CGROUP_DEVICE, _ALLOW_MULTI = 15, 6, 2


def _instruction(code: int, registers: int = 0, offset: int = 0, value: int = 0) -> bytes:
    return struct.pack("<BBhi", code, registers, offset, value)


_RETURN_0, _RETURN_1, _EXIT = _instruction(0xB7), _instruction(0xB7, value=1), _instruction(0x95)
ALLOW_ALL = (_RETURN_1, _EXIT)


def all_but(device: int) -> tuple[bytes, ...]:
    """Return a program that refuses one device number alone, such as st_rdev of its file.

    It is told the major number at 4 and the minor number at 8 (struct bpf_cgroup_dev_ctx).
    """
    return (
        _instruction(0x61, 0x12, 4),  # r2 = the major number
        _instruction(0x61, 0x13, 8),  # r3 = the minor number
        _instruction(0x55, 0x02, 3, os.major(device)),  # another one: allowed
        _instruction(0x55, 0x03, 2, os.minor(device)),
        _RETURN_0,
        _EXIT,
        *ALLOW_ALL,
    )


def load(program: Sequence[bytes]) -> int:
    """Return the descriptor of a loaded program.

    Raises:
        OSError: the kernel refused it.
    """
    instructions, license_ = ctypes.create_string_buffer(b"".join(program)), ctypes.create_string_buffer(b"GPL")
    places = ctypes.addressof(instructions), ctypes.addressof(license_)
    attributes = struct.pack("<IIQQIIQI", _PROG_TYPE_CGROUP_DEVICE, len(program), *places, 0, 0, 0, 0)
    return _bpf(_PROG_LOAD, attributes)


def attach(program: Sequence[bytes], group: Path) -> None:
    """Bind the processes of a group of cgroup v2 by a program, besides those that it has.

    Raises:
        OSError: the kernel refused it.
    """
    loaded = load(program)
    try:
        descriptor = os.open(group, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _bpf(_PROG_ATTACH, struct.pack("<IIII", descriptor, loaded, _CGROUP_DEVICE, _ALLOW_MULTI))
        finally:
            os.close(descriptor)
    finally:
        os.close(loaded)  # The group holds what is attached to it.


def _bpf(command: int, attributes: bytes) -> int:
    answer: int = _LIBC.syscall(_SYS_BPF, command, attributes, len(attributes))
    if answer < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return answer
