"""sshd reads a bounded part of a user's keys (native/login/sshd_lines.c): a program reads lines as it does."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

KEY = "ssh-ed25519 " + "A" * 68 + "\n"
LONGEST, MOST = 64 << 10, 4 << 20
Read = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module", params=["-O0", "-O2"], ids=["getline", "as optimized"])
def read(request: pytest.FixtureRequest, make: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Read:
    """Has a program read lines, and returns what it says of them; it may have 64 MiB of memory."""
    folder = tmp_path_factory.mktemp("lines")
    library, program = make("sshd_guard.so", folder), folder / "reader"
    source = Path(__file__).with_name("lines_probe.c")
    subprocess.run(["gcc", "-D_GNU_SOURCE", request.param, "-o", program, source], check=True, timeout=60)

    def reader(path: Path | str, piped: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["prlimit", f"--as={64 << 20}", program, path],
            input=piped, capture_output=True, text=True, timeout=60, check=True,
            env={**os.environ, "LD_PRELOAD": str(library)},
        )  # fmt: skip

    return reader


def test_keys_are_read_as_ever(read: Read, tmp_path: Path) -> None:
    keys = tmp_path / "authorized_keys"
    keys.write_text(KEY + "\n" + "c" * (LONGEST - 1) + "\n" + KEY.rstrip())
    assert read(keys).stdout.split() == [str(len(KEY)), "1", str(LONGEST), str(len(KEY) - 1)]
    keys.write_text("")
    assert read(keys).stdout == ""


def test_a_line_longer_than_any_key_is_empty_and_the_keys_behind_it_count(read: Read, tmp_path: Path) -> None:
    keys = tmp_path / "authorized_keys"
    keys.write_text(KEY + "x" * (1 << 20) + "\n" + KEY)
    assert read(keys).stdout.split() == [str(len(KEY)), "1", str(len(KEY))]


def test_an_endless_line_takes_no_memory(read: Read, tmp_path: Path) -> None:
    keys = tmp_path / "authorized_keys"
    keys.write_text(KEY)
    os.truncate(keys, 1 << 40)
    found = read(keys)
    assert found.stdout.split() == [str(len(KEY))]
    assert found.stderr == f"error: {keys} is longer than 4 MiB: its further lines count for nothing\n"


def test_a_file_ends_after_4_mib(read: Read, tmp_path: Path) -> None:
    keys = tmp_path / "authorized_keys"
    whole = MOST // len(KEY)
    keys.write_text(KEY * whole)
    found = read(keys)
    assert (len(found.stdout.split()), found.stderr) == (whole, "")
    keys.write_text(KEY * (whole + 9))
    assert len(read(keys).stdout.split()) == whole


def test_what_is_no_file_has_no_end_but_its_own(read: Read) -> None:
    assert len(read("pipe", KEY * 60_000).stdout.split()) == 60_000
