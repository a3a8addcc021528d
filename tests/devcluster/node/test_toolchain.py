"""Programs of the machine are used only where they fit; what is built is found again."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from devcluster.machine.progress import StepFailed
from devcluster.node import toolchain


def program(folder: Path, name: str, prints: str) -> Path:
    file = folder / name
    file.write_text(f"#!/bin/sh\necho '{prints}'\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return file


@pytest.mark.parametrize(
    ("fits", "text", "expected"),
    [
        (toolchain.pulumi_fits, "v3.250.0", True),
        (toolchain.pulumi_fits, "v3.259.0-dev+abc", True),
        (toolchain.pulumi_fits, "v3.249.9", False),
        (toolchain.pulumi_fits, "v4.0.0", False),
        (toolchain.pulumi_fits, "no version", False),
        (toolchain.kubectl_fits, "Client Version: v1.34.1", True),
        (toolchain.kubectl_fits, "Client Version: v1.36.0", True),
        (toolchain.kubectl_fits, "Client Version: v1.33.9", False),
        (toolchain.go_fits, "go version go1.26.0 linux/amd64", True),
        (toolchain.go_fits, "go version go1.25.9 linux/amd64", False),
    ],
)
def test_only_versions_that_were_tried_are_used(fits, text, expected):
    assert fits(toolchain.parse_version(text)) is expected


def test_a_fitting_pulumi_on_path_is_used_and_not_built(tmp_path, monkeypatch):
    cli = program(tmp_path, "pulumi", "v3.260.1")
    program(tmp_path, "pulumi-language-python", "")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = toolchain.programs_on_path()
    assert found["pulumi"] == cli
    assert not {tool.module for tool in toolchain.wanted_tools(found)} & {"pulumi", "language-python"}


def test_a_pulumi_without_its_language_host_is_not_used(tmp_path, monkeypatch):
    program(tmp_path, "pulumi", "v3.260.1")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert "pulumi" not in toolchain.programs_on_path()


def test_programs_that_devcluster_env_put_on_path_are_not_the_machines(tmp_path, monkeypatch):
    built = tmp_path / "toolchain" / "bin-0123"
    built.mkdir(parents=True)
    program(built, "pulumi", "v3.259.0")
    program(built, "pulumi-language-python", "")
    monkeypatch.setenv("PULUMI_SLURM_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", f"{built}:/usr/bin:/bin")
    assert "pulumi" not in toolchain.programs_on_path()


def test_an_unbuilt_toolchain_names_the_command_that_builds_it(tmp_path, monkeypatch):
    monkeypatch.delenv("PULUMI_SLURM_BINARIES", raising=False)
    monkeypatch.setenv("PULUMI_SLURM_CACHE", str(tmp_path))
    with pytest.raises(StepFailed, match="devcluster toolchain"):
        toolchain.binaries()


GO = """#!/bin/sh
[ "$1" = build ] || exit 1
mkdir -p "$GOCACHE/much" "$GOMODCACHE/more"
until [ "$1" = -o ]; do shift; done
touch "$2"
"""


def test_a_build_does_not_wait_until_its_intermediate_files_are_removed(tmp_path, monkeypatch):
    go, cache, pipe = tmp_path / "go", tmp_path / "cache", tmp_path / "pipe"
    go.write_text(GO)
    go.chmod(0o755)
    (cache / "waste-of-a-removal-that-was-ended").mkdir(parents=True)
    monkeypatch.setenv("PULUMI_SLURM_CACHE", str(cache))
    monkeypatch.setattr(toolchain, "find_go", lambda: go)
    os.mkfifo(pipe)
    program(tmp_path, "nice", "").write_text(f'#!/bin/sh\nread word < {pipe}\nexec /usr/bin/nice "$@"\n')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    removals = []

    def begun(*arguments, **options):
        removals.append(started(*arguments, **options))
        return removals[-1]

    started = subprocess.Popen
    monkeypatch.setattr(toolchain.subprocess, "Popen", begun)
    built = toolchain._build((toolchain.KUBERNETES,))
    assert (built / "kubelet").exists()
    assert not (cache / "go-build").exists()
    assert not (cache / "go-modules").exists()
    pipe.write_text("go on\n")
    assert removals[-1].wait(60) == 0
    assert [path.name for path in cache.iterdir() if path.name != "log"] == ["toolchain"]
