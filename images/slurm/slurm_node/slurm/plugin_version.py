"""Reads from a plugin's file for which Slurm it was built: slurmstepd would refuse it only at a user's job.

Every plugin has the symbol `plugin_version`, a 32-bit number (slurm.h: SLURM_VERSION_NUM). This module reads it from
the ELF file (elf(5), 64-bit, little endian), since loading needs slurmstepd's own symbols.
"""

import functools
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from slurm_node.pod import paths
from slurm_node.pod.log import NodeError

SYMBOL = b"plugin_version"
_DYNAMIC_SYMBOLS = 11
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")


@dataclass(frozen=True, slots=True)
class _Section:
    kind: int
    address: int
    offset: int
    size: int
    link: int


def refusal(plugin: Path = paths.PLUGIN, of_slurm: Path = paths.STOCK_PLUGIN) -> str | None:
    """Returns why the jail plugin would not be loaded, or None.

    Args:
        plugin: the jail plugin.
        of_slurm: any plugin that came with this Slurm.
    """
    try:
        ours, slurms = (_version_of(file, _identity(file)) for file in (plugin, of_slurm))
    except (OSError, NodeError) as error:
        return f"the jail plugin can't be checked: {error}"
    if ours == slurms:
        return None
    return f"{plugin.name} was built for Slurm {words(ours)}, this is {words(slurms)}: build the slurm image again"


def tell_guard(sentence: str | None, file: Path = paths.PLUGIN_REFUSED) -> None:
    """Tells the guard in slurmstepd why to refuse steps (native/stepd/stepd_guard.c); None permits them."""
    if sentence is None:
        file.unlink(missing_ok=True)
    elif not file.exists():
        aside = file.with_suffix(".new")
        aside.write_text(sentence)
        aside.replace(file)


def _identity(file: Path) -> tuple[int, int, int]:
    facts = file.stat()
    return facts.st_ino, facts.st_mtime_ns, facts.st_size


@functools.lru_cache(maxsize=8)
def _version_of(file: Path, _identity: tuple[int, int, int]) -> int:
    """Returns a plugin's version. It is called twice a second, so it does not read an unchanged file again."""
    return version_number(file)


def words(number: int) -> str:
    """A version number in dotted form: 0x1a0505 is 26.5.5."""
    return f"{number >> 16 & 0xFF}.{number >> 8 & 0xFF}.{number & 0xFF}"


def version_number(plugin: Path) -> int:
    """Returns the value of ``plugin_version``.

    Raises:
        NodeError: the file is no Slurm plugin.
    """
    code = plugin.read_bytes()
    try:
        sections = list(_sections(code))
        address = next(_addresses(code, sections))
        home = next(
            section for section in sections if section.address and 0 <= address - section.address < section.size
        )
        return int(struct.unpack_from("<I", code, home.offset + address - home.address)[0])
    except (StopIteration, struct.error, IndexError, ValueError):
        raise NodeError(f"{plugin} is no Slurm plugin: it has no plugin_version") from None


def _sections(code: bytes) -> Iterator[_Section]:
    if code[:6] != b"\x7fELF\x02\x01":
        raise ValueError("no 64-bit little-endian ELF file")
    (offset,) = struct.unpack_from("<Q", code, 0x28)
    size, count = struct.unpack_from("<HH", code, 0x3A)
    for number in range(count):
        _, kind, _, address, start, length, link, *_ = _SECTION.unpack_from(code, offset + number * size)
        yield _Section(kind, address, start, length, link)


def _addresses(code: bytes, sections: list[_Section]) -> Iterator[int]:
    """Addresses of the wanted symbol; a generator, so that a file without it ends in StopIteration."""
    for table in (section for section in sections if section.kind == _DYNAMIC_SYMBOLS):
        names = sections[table.link].offset
        for at in range(table.offset, table.offset + table.size, _SYMBOL.size):
            name, _, _, _, value, _ = _SYMBOL.unpack_from(code, at)
            if code[names + name : names + name + len(SYMBOL) + 1] == SYMBOL + b"\0" and value:
                yield value
