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


@pytest.mark.parametrize("version", ["26.05.5-1", "26.05.5-1~bpo13+1", "26.05.10-2", "26.11.0-1", "1:26.05.5-1"])
def test_a_slurm_without_the_door_of_sql_is_taken(version):
    build_prefix.refuse_an_old(version)


@pytest.mark.parametrize("version", ["26.05.4-1", "26.05.5~rc1-1", "25.11.9-1", "1:26.05.4-3", "22.05.8-4+deb12u3", ""])
def test_an_older_slurm_ends_the_build_and_says_why(version):
    with pytest.raises(SystemExit, match=r"can't have Slurm .*26\.05\.5 or newer: .* SQL"):
        build_prefix.refuse_an_old(version)
