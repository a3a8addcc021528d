"""Paths and device files."""

import re
from collections.abc import Iterable
from typing import Annotated, Final

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from components.config.values.quantities import positive
from components.config.values.validation import wrong
from contract import paths

SYSTEM: Final = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", paths.PREFIX, "/proc", "/run", "/sbin"),
    *("/sys", "/tmp", "/usr", "/var"),  # noqa: S108 - names that are refused as mount points
)
"""Folders that come from the image, the node or Slurm. /var has the packages' records and slurmd's spool."""

_DEVICES = re.compile(
    r"/dev/(?!\.\.?/)[A-Za-z0-9_/-]+(?:\[(?P<ranges>\d{1,3}(?:-\d{1,3})?(?:,\d{1,3}(?:-\d{1,3})?)*)\])?"
)


def is_within(path: str, outer: str) -> bool:
    """Return whether a path equals another one or lies in it."""
    return f"{path}/".startswith(f"{outer}/")


def meets(path: str, others: Iterable[str]) -> str | None:
    """The first of the other paths that equals the path, contains it or lies in it; None without one."""
    return next((other for other in sorted(others) if is_within(path, other) or is_within(other, path)), None)


def device_files(files: str) -> list[str]:
    """Device files that patterns such as `/dev/nvidia[0-3,7]` name, with commas between patterns.

    Raises:
        ValueError: The text is no such pattern, or a range runs backwards.
    """
    return [file for pattern in re.split(r",(?=/)", files) for file in _expanded(pattern)]


def _expanded(pattern: str) -> list[str]:
    match = _DEVICES.fullmatch(pattern)
    if not match:
        raise ValueError(pattern)
    if match["ranges"] is None:
        return [pattern]
    numbers: set[int] = set()
    for part in match["ranges"].split(","):
        first, _, last = part.partition("-")
        numbers |= set(range(int(first), int(last or first) + 1))
        if int(last or first) < int(first):
            raise ValueError(pattern)
    return [f"{pattern.partition('[')[0]}{number}" for number in sorted(numbers)]


def device_count(files: str) -> int:
    """Number of device files that one pattern such as `/dev/nvidia[0-3,7]` names; 1 without brackets.

    Raises:
        ValueError: The text is no such pattern, or a range runs backwards.
    """
    return len(_expanded(files))


def core_numbers(cores: str) -> list[int]:
    """Cores of a node, by Slurm's numbers from 0, that a list such as `0-15,32` names.

    Raises:
        ValueError: The text is no such list, or a range runs backwards.
    """
    numbers: set[int] = set()
    for part in cores.split(","):
        match = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", part)
        if not match or int(match[2] or match[1]) < int(match[1]):
            raise ValueError(cores)
        numbers |= set(range(int(match[1]), int(match[2] or match[1]) + 1))
    return sorted(numbers)


def _several(files: str) -> int:
    """Number of device files, if there are at least two: slurmd does not start with a MultipleFiles of one."""
    count = len(device_files(files))
    if count < 2:
        raise ValueError(files)
    return count


def _path(value: str) -> str:
    if not re.fullmatch(r"(/[A-Za-z0-9._-]+)+", value) or "/.." in value or "/./" in f"{value}/":
        raise wrong("an absolute path such as /data, without `..` or a slash at the end")
    return value


def _exported_path(value: str) -> str:
    # Version 4 servers, Amazon's EFS among them, export their pseudo root.
    return value if value == "/" else _path(value)


def _relative_path(value: str) -> str:
    try:
        return _path(f"/{value}").removeprefix("/")
    except PydanticCustomError:
        raise wrong("a path inside the volume such as data/2026, without `..` or a slash at either end") from None


DeviceFiles = Annotated[str, positive(device_count, "device files below /dev, such as /dev/nvidia[0-7]")]
CoreList = Annotated[str, positive(lambda cores: len(core_numbers(cores)), "cores such as 0-15 or 0-7,16-23")]
FilesOfOneDevice = Annotated[
    str,
    positive(_several, "two device files or more of one MIG device: /dev/nvidia0,/dev/nvidia-caps/nvidia-cap[21-22]"),
]
AbsolutePath = Annotated[str, AfterValidator(_path)]
ExportedPath = Annotated[str, AfterValidator(_exported_path)]
RelativePath = Annotated[str, AfterValidator(_relative_path)]
