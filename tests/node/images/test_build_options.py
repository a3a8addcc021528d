"""Sources that somebody puts beside an image, and that its build then takes: plugins, and enroot."""

from __future__ import annotations

import ctypes
import errno
import subprocess
import sys
from pathlib import Path

import pytest

from devcluster.images.image_recipe import IMAGES

BUILD_PLUGINS = IMAGES / "slurm/build_plugins.py"
BUILD_ENROOT = IMAGES / "jail/enroot/build.py"
MAKEFILE = """
CPPFLAGS := -DOWN $(CPPFLAGS)
plugin.so: plugin.c
\t$(CC) -shared -fPIC $(CPPFLAGS) -o $@ $< $(LDFLAGS)
"""
PLUGIN = """
#include <unistd.h>
#ifndef OWN
#error "the Makefile's own flags are gone"
#endif
int start(void) { return fork(); }
"""


def build(script: Path, *arguments: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def native(tmp_path: Path) -> Path:
    folder = tmp_path / "native"
    command = ["make", "-s", "-C", str(IMAGES.parent / "native"), f"OUT={folder}", str(folder / "confined_fork.o")]
    subprocess.run(command, check=True, timeout=60)
    return folder


def test_a_plugins_source_is_built_and_forks_by_ours(tmp_path: Path, native: Path) -> None:
    source = tmp_path / "plugins/pyxis"
    source.mkdir(parents=True)
    (source / "Makefile").write_text(MAKEFILE)
    (source / "plugin.c").write_text(PLUGIN)
    done = build(BUILD_PLUGINS, tmp_path / "plugins", native)
    assert done.returncode == 0, done.stderr
    plugin = ctypes.CDLL(str(tmp_path / "plugins/plugin.so"), use_errno=True)
    # The jail's plugin is not loaded here: nothing is started without it.
    assert (plugin.start(), ctypes.get_errno()) == (-1, errno.ENOSYS)


@pytest.mark.parametrize(
    ("makefile", "words"),
    [(None, "has no Makefile"), ("all:\n", "make left no .so there"), ("all:\n\tfalse\n", "returned non-zero")],
)
def test_what_is_no_plugins_source_ends_the_build_in_words(
    tmp_path: Path, native: Path, makefile: str | None, words: str
) -> None:
    (tmp_path / "plugins/mine").mkdir(parents=True)
    if makefile is not None:
        (tmp_path / "plugins/mine/Makefile").write_text(makefile)
    done = build(BUILD_PLUGINS, tmp_path / "plugins", native)
    assert done.returncode != 0
    assert words in done.stderr


def test_without_sources_nothing_is_built(tmp_path: Path, native: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins/README.md").touch()
    assert build(BUILD_PLUGINS, tmp_path / "plugins", native).returncode == 0
    assert [path.name for path in (tmp_path / "plugins").iterdir()] == ["README.md"]


def test_another_enroot_than_the_one_that_was_tried_is_refused(tmp_path: Path) -> None:
    (tmp_path / "build.py").write_bytes(BUILD_ENROOT.read_bytes())
    (tmp_path / "source/bin").mkdir(parents=True)
    (tmp_path / "source/bin/enroot-switchroot.c").write_text("int main(void) { return 0; }\n")
    done = build(tmp_path / "build.py")
    assert done.returncode != 0
    assert 'expected (int)syscall(SYS_pivot_root, ".", ".") once, found 0' in done.stderr
