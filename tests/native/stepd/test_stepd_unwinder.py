"""A thread of slurmstepd ends itself: what glibc then loads by its name is the image's file, or nothing."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

NAME = "libgcc_s.so.1"


@pytest.fixture
def probe(make: Callable[..., Path], tmp_path: Path) -> Path:
    folder = tmp_path / "image"
    folder.mkdir()
    search = subprocess.run(["gcc", f"-print-file-name={NAME}"], capture_output=True, text=True, timeout=30, check=True)
    for copy in (folder / NAME, tmp_path / "planted"):
        shutil.copyfile(search.stdout.strip(), copy)
    (folder / "log").touch()
    return make("unwinder_probe", tmp_path, f"PROBE={folder}")


def test_a_thread_that_ends_itself_loads_the_images_file(probe: Path, tmp_path: Path) -> None:
    done = subprocess.run([probe], capture_output=True, text=True, timeout=20, check=True)
    before, _, after = done.stdout.partition("then\n")
    assert (before, set(after.splitlines())) == ("", {str(tmp_path / "image" / NAME)})


def test_a_file_that_took_its_place_is_not_loaded(probe: Path, tmp_path: Path) -> None:
    swap = [tmp_path / "planted", tmp_path / "image" / NAME]
    done = subprocess.run([probe, *swap], capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stdout) == (1, "then\n")
    assert "is not the image's file" in (tmp_path / "image/log").read_text()
