"""Texts that the configuration gives by themselves, or as files of the project."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from components.config.values.validation import wrong

MOST_BYTES: Final = 512 << 10
"""Of all texts of a kind together. A ConfigMap holds 1 MiB, and so does the ledger with all of them, compressed."""

_ABSENT: Final = "a file of the project, whose path begins at Pulumi.yaml"


def text_or_path(value: Any) -> Any:
    """The text of a file: as it is, or read from `{path: …}`.

    Raises:
        PydanticCustomError: The path leads to no text of this project, or the value is no text.
    """
    if isinstance(value, Mapping) and set(value) == {"path"} and isinstance(value["path"], str):
        return read(value["path"])
    if not isinstance(value, str):
        raise wrong("the file's text, or {path: …} with a path of the project")
    return value


def read(path: str) -> str:
    """The text of a file of the project.

    Raises:
        PydanticCustomError: The path leads to no text of this project.
    """
    # Pulumi runs a program in its project's folder.
    folder = Path.cwd()
    if Path(path).is_absolute() or ".." in Path(path).parts:
        raise wrong(f"{_ABSENT}, without `..`")
    file = folder / path
    try:
        if not file.is_file():
            raise wrong(f"{_ABSENT}: there is {'a folder' if file.is_dir() else 'nothing'} at {file}")
        if file.stat().st_size > MOST_BYTES:
            raise wrong(f"a file of at most {MOST_BYTES >> 10} KiB: {file} has {file.stat().st_size} bytes")
        return file.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise wrong(f"a file with UTF-8 text: {file} has another byte at {error.start}") from None
    except OSError as error:
        raise wrong(f"a file that can be read: {file}: {error.strerror}") from None
