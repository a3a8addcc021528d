"""What goes first in slurmstepd lets a step run only if the jail plugin is sure to be loaded."""

import os
import struct
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

RAN = "the real slurmstepd ran"


class Guard:
    """The guard with its paths in a folder of the test."""

    def __init__(self, folder: Path, make: Callable[..., Path]) -> None:
        self.folder = folder
        self.plugin = folder / "spank_jail.so"
        self.good = {"slurm.conf": "ClusterName=x\n", "plugstack.conf": f"required {self.plugin} jail=/run/jail\n"}
        self.plugin.touch()
        self._program = make("guard_probe", folder, f"PROBE={folder}")

    def run(self, files: Mapping[str, str], *arguments: str) -> tuple[bytes, str]:
        """Returns what slurmd would read from it, and what the log got."""
        log, conf = self.folder / "log", self.folder / "conf"
        conf.mkdir(exist_ok=True)
        for old in conf.iterdir():
            old.unlink()
        for name, text in files.items():
            (conf / name).write_text(text)
        log.write_text("")
        finished = subprocess.run(
            [self._program, *arguments],
            input=b"the step\n",
            capture_output=True,
            timeout=30,
            env={**os.environ, "SLURM_CONF": str(conf / "slurm.conf")},
            check=False,
        )
        return finished.stdout, log.read_text()


@pytest.fixture(scope="module")
def guard(tmp_path_factory: pytest.TempPathFactory, make: Callable[..., Path]) -> Guard:
    return Guard(tmp_path_factory.mktemp("guard"), make)


def test_a_right_configuration_lets_slurmstepd_run_with_its_input_untouched(guard: Guard) -> None:
    output, log = guard.run(guard.good)
    assert output == f"{RAN}\nthe step\n".encode()
    assert log == ""


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("plugstack.conf", "optional {plugin} jail=/run/jail\n", "has no line"),
        ("plugstack.conf", "#required {plugin}\n", "has no line"),
        ("plugstack.conf", "required spank_jail.so\n", "has no line"),
        ("plugstack.conf", "required {plugin}.old\n", "has no line"),
        ("plugstack.conf", "", "has no line"),
        ("slurm.conf", "PlugStackConfig=plugstack.conf\n", "PlugStackConfig"),
        ("slurm.conf", "plugstackconfig = /nowhere\n", "PlugStackConfig"),
        ("slurm.conf", "ClusterName=x PlugStackConfig=a\n", "PlugStackConfig"),
        ("slurm.conf", "PlugStack\\\nConfig=a\n", "PlugStackConfig"),
        ("slurm.conf", "Include more.conf\n", "PlugStackConfig"),
        ("slurm.conf", "include missing.conf\n", "No such file"),
        ("slurm.conf", "include slurm.conf\n", "too deeply"),
    ],
)
def test_a_configuration_that_could_leave_the_jail_starts_nothing(
    guard: Guard, name: str, text: str, sentence: str
) -> None:
    files = {**guard.good, "more.conf": "PlugStackConfig=x\n", name: text.format(plugin=guard.plugin)}
    output, log = guard.run(files)
    assert RAN.encode() not in output
    assert struct.unpack("i", output) == (8004,), "slurmd waits for a return code: ESLURM_PLUGIN_NOT_LOADED"
    assert sentence in log


def test_a_missing_plugin_starts_nothing(guard: Guard) -> None:
    guard.plugin.rename(guard.plugin.with_suffix(".away"))
    try:
        output, log = guard.run(guard.good)
    finally:
        guard.plugin.with_suffix(".away").rename(guard.plugin)
    assert RAN.encode() not in output
    assert "No such file" in log


def test_a_plugin_that_slurm_would_not_load_starts_nothing(guard: Guard) -> None:
    refused = guard.folder / "refused"
    refused.write_text("it was built for Slurm 25.11.1")
    output, log = guard.run(guard.good)
    refused.unlink()
    assert struct.unpack("i", output) == (8010,), "ESLURM_PLUGIN_BAD_VERSION"
    assert "it was built for Slurm 25.11.1" in log


def test_a_missing_configuration_starts_nothing(guard: Guard) -> None:
    output, _ = guard.run({})
    assert RAN.encode() not in output


def test_a_comment_about_the_forbidden_line_is_no_reason_to_refuse(guard: Guard) -> None:
    output, _ = guard.run({**guard.good, "slurm.conf": "# no PlugStackConfig here\nClusterName=x\n"})
    assert RAN.encode() in output


def test_modes_that_run_no_step_need_no_configuration(guard: Guard) -> None:
    output, _ = guard.run({}, "getenv")
    assert output.startswith(f"{RAN} getenv".encode())
