"""Texts of scripts that Slurm starts as programs, and checks of them."""

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import AfterValidator

from components.config.values import project_files
from components.config.values.validation import matching, wrong

_FOLDERS: Final = ("/bin", "/usr/bin")
_PROGRAMS: Final = ("bash", "dash", "perl", "python3", "sh")
INTERPRETERS: Final = frozenset(f"{folder}/{program}" for folder in _FOLDERS for program in _PROGRAMS)
"""Interpreters of the slurm image, by the paths that a script may name."""
_ENV: Final = frozenset(f"{folder}/env" for folder in _FOLDERS)


def check_script(text: str) -> str:
    """The text, if the kernel can start it as a script.

    Raises:
        PydanticCustomError: It is empty, lacks a `#!` line, or has line ends or bytes that the kernel takes otherwise.
    """
    if not text.strip():
        raise wrong("text: an empty script does nothing, leave it out")
    wanted = []
    if not text.startswith("#!") or not _first_line(text):
        want = "text that begins with `#!` and an interpreter, such as #!/bin/bash: Slurm starts it as a program"
        wanted.append(want)
    if "\0" in text:
        wanted.append("text without NUL, which is no character of a script")
    if "\r\n" in text:
        wanted.append("lines that end with a newline alone: the kernel would take a carriage return for part of a name")
    if wanted:
        raise wrong("; ".join(wanted))
    return text


def _first_line(text: str) -> str:
    return text.partition("\n")[0].removeprefix("#!").strip()


def wrong_interpreter(text: str) -> str:
    """Return what would be right if the slurm image lacks a script's interpreter; empty if it has it."""
    words = _first_line(text).split()
    if words[0] in INTERPRETERS or (words[0] in _ENV and words[1:2] and words[1] in _PROGRAMS):
        return ""
    return f"`#!` and an interpreter that the slurm image has: one of {', '.join(_PROGRAMS)} in /bin or /usr/bin"


def too_large(texts: Mapping[str, str]) -> str:
    """Return what would be right if scripts are together larger than their ConfigMaps; empty if they are not."""
    total = sum(len(text.encode()) for text in texts.values())
    return (
        f"at most {project_files.MOST_BYTES >> 10} KiB in all scripts together; they have {total} bytes"
        if total > project_files.MOST_BYTES
        else ""
    )


ScriptName = Annotated[
    str,
    matching(
        r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?",
        "a name without a slash: at most 40 lower-case letters, digits and inner hyphens, such as scratch",
    ),
]
ScriptText = Annotated[str, AfterValidator(check_script)]
ScriptFile = Annotated[str, AfterValidator(project_files.read), AfterValidator(check_script)]
"""A path of the project; the value is the text of that file."""
