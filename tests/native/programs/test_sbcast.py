"""sbcast of the jail: a step of the job writes the file, with a stand-in for srun that runs the step's line here."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

SRUN = """#!/bin/sh
echo "$*" | head -n 1 > "$FOLDER/asked"
env | grep -E "^(SLURM|SRUN)_" > "$FOLDER/environment"
while [ "$1" != /bin/sh ]; do shift; done
exec "$@"
"""


class Trial:
    """A folder with the program and its srun, and a file to send."""

    def __init__(self, folder: Path, make: Callable[..., Path]) -> None:
        self.folder = folder
        (folder / "srun").write_text(SRUN)
        (folder / "srun").chmod(0o755)
        self._program = make("sbcast_probe", folder, f"PROBE={folder}")
        self.source = folder / "tool"
        self.source.write_bytes(bytes(range(256)) * 1000)
        self.source.chmod(0o751)
        os.utime(self.source, (1_000_000_000, 1_000_000_000))

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        ours = {"PATH": os.environ["PATH"], "FOLDER": str(self.folder), "SLURM_JOB_ID": "41", **environment}
        command = [str(self._program), *arguments]
        return subprocess.run(
            command, env=ours, cwd=self.folder, capture_output=True, text=True, timeout=60, check=False
        )


@pytest.fixture
def trial(tmp_path: Path, make: Callable[..., Path]) -> Trial:
    return Trial(tmp_path, make)


def test_a_step_on_every_node_of_the_job_writes_the_file_with_its_mode(trial: Trial) -> None:
    sent = trial.run("tool", "copy", SLURM_NTASKS="9", SRUN_CPUS_PER_TASK="5", SLURM_CONF="/conf")
    assert (sent.returncode, sent.stderr) == (0, "")
    copy = trial.folder / "copy"
    assert copy.read_bytes() == trial.source.read_bytes()
    assert copy.stat().st_mode & 0o7777 == 0o751
    asked = (trial.folder / "asked").read_text()
    assert asked.startswith("--jobid=41 --overlap --quiet --input=all /bin/sh ")
    assert (trial.folder / "environment").read_text() == "SLURM_CONF=/conf\n", "a script's own options are not a step's"


def test_a_file_that_is_there_is_replaced_only_by_force(trial: Trial) -> None:
    (trial.folder / "copy").write_text("old")
    refused = trial.run("tool", "copy")
    assert refused.returncode != 0
    assert "copy exists on" in refused.stderr
    assert (trial.folder / "copy").read_text() == "old"
    assert trial.run("-f", "tool", "copy").returncode == 0
    assert (trial.folder / "copy").read_bytes() == trial.source.read_bytes()


def test_a_folder_that_is_not_there_is_one_sentence_with_what_to_do(trial: Trial) -> None:
    refused = trial.run("tool", "nowhere/copy")
    assert refused.returncode == 1
    (sentence,) = refused.stderr.splitlines()
    assert sentence.startswith("sbcast: DEST nowhere/copy: ")
    assert sentence.endswith(" has no folder nowhere/: make it first, with srun mkdir -p")


def test_options_of_slurms_own_are_taken(trial: Trial) -> None:
    (trial.folder / "into").mkdir()
    options = ["--compress=lz4", "-F4", "--size", "1m", "-t", "5", "-vp", "--jobid=7.batch", "--send-libs=no"]
    sent = trial.run(*options, "tool", "into/")
    assert sent.returncode == 0, sent.stderr
    assert int((trial.folder / "into/tool").stat().st_mtime) == 1_000_000_000
    assert (trial.folder / "asked").read_text().startswith("--jobid=7 ")


@pytest.mark.parametrize(
    ("arguments", "environment", "sentence"),
    [
        (["tool"], {}, "SOURCE DEST"),
        (["missing", "copy"], {}, "missing: No such file"),
        (["/", "copy"], {}, "not a regular file"),
        (["--send-libs", "tool", "copy"], {}, "libraries are not sent"),
        (["--nonsense", "tool", "copy"], {}, "--nonsense"),
        (["tool", "no-folder/copy"], {}, "no-folder/copy"),
    ],
)
def test_what_can_not_be_sent_is_refused_in_words(
    trial: Trial, arguments: list[str], environment: dict[str, str], sentence: str
) -> None:
    refused = trial.run(*arguments, **environment)
    assert refused.returncode != 0
    assert sentence in refused.stderr


def test_outside_of_a_job_one_must_be_named(trial: Trial) -> None:
    refused = subprocess.run(
        [trial.folder / "sbcast_probe", "a", "b"], capture_output=True, text=True, env={}, check=False
    )
    assert refused.returncode != 0
    assert "--jobid" in refused.stderr
