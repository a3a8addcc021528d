"""The Slurm prefix keeps a record of its Debian packages: dpkg's own words, on the machine that runs the tests."""

from __future__ import annotations

import email
import shutil
from pathlib import Path

import build_prefix
import pytest

pytestmark = pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="this machine has no dpkg")


def test_each_file_names_its_package_whether_or_not_the_package_knows_of_the_merged_usr():
    ours = Path(__file__)
    assert build_prefix.packages_of([Path("/bin/ls"), Path("/usr/bin/ls"), ours]) == {"coreutils"}
    (linked,) = (library for library in build_prefix.libraries_of([Path("/bin/ls")]) if library.name == "libc.so.6")
    (package,) = build_prefix.packages_of([linked])
    assert package.partition(":")[0] == "libc6"


def test_a_noted_package_reads_as_installed(tmp_path):
    build_prefix.note_packages(tmp_path / "status.d", ["coreutils"])
    entry = email.message_from_string((tmp_path / "status.d/coreutils").read_text())
    assert entry["Status"].endswith(" installed") and entry["Version"]
