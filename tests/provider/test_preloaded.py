"""A program that is forked from a preloaded Python is a process as Pulumi's Python host starts one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.preloaded import starts

IMPORTED = 'import sys\nprint("pulumi" in sys.modules)'


def command(preloaded: Path, folder: Path, text: str) -> list[str]:
    """Return how the language host starts a program of this text."""
    program = folder / "pulumi-language-python-exec"
    program.write_text(text)
    return [str(preloaded / "python3"), str(program), "an argument"]


def test_it_has_its_own_arguments_files_folder_variables_and_exit_code(preloaded: Path, tmp_path: Path) -> None:
    text = """
import os, sys
print([sys.argv[1:], __name__, sys.path[0], os.getcwd(), dict(os.environ)["ITS"], sys.stdin.read()])
sys.exit(7)
"""
    done = subprocess.run(
        command(preloaded, tmp_path, text), cwd=tmp_path, env={"ITS": "own", "PATH": "/usr/bin:/bin"},
        input="a line", capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    shown = [["an argument"], "__main__", str(tmp_path), str(tmp_path), "own", "a line"]
    assert (done.stdout, done.stderr, done.returncode) == (f"{shown}\n", "", 7)


def test_its_error_is_shown_and_is_a_failure(preloaded: Path, tmp_path: Path) -> None:
    asked = command(preloaded, tmp_path, 'raise ValueError("wrong")')
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.endswith("ValueError: wrong\n")
    assert done.returncode == 1


def test_it_ends_with_the_process_that_stands_for_it(preloaded: Path, tmp_path: Path) -> None:
    text = 'import signal\nprint("started", flush=True)\nsignal.pause()'
    with subprocess.Popen(command(preloaded, tmp_path, text), stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"started\n"
        running.kill()
        # The pipe is the program's own: it stays open as long as the program lives.
        assert running.communicate(timeout=60)[0] == b""


def test_a_dynamic_provider_tells_its_port_at_once(preloaded: Path) -> None:
    asked = [str(preloaded / "python3"), "-u", "-m", "pulumi.dynamic", "127.0.0.1:1"]
    with subprocess.Popen(asked, env={"PATH": "/usr/bin:/bin"}, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert int(running.stdout.readline()) > 0
        running.terminate()
        assert running.communicate(timeout=60)[0] == b""


@pytest.mark.parametrize(("variables", "expected"), [({}, "True"), ({starts.OWN_PROCESSES: "1"}, "False")])
def test_it_has_pulumi_unless_it_is_to_start_as_it_does_for_users(
    preloaded: Path, tmp_path: Path, variables: dict[str, str], expected: str
) -> None:
    environment = {"PATH": "/usr/bin:/bin", **variables}
    asked = command(preloaded, tmp_path, IMPORTED)
    assert subprocess.check_output(asked, env=environment, text=True, timeout=60).strip() == expected


def test_programs_do_not_all_have_the_same_order_of_sets(preloaded: Path, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text('print(hash("a"))')
    client = [sys.executable, "-I", "-S", starts.CLIENT]
    seen = {
        subprocess.check_output([*client, preloaded / "sockets" / str(number), program], timeout=60)
        for number in range(starts.SERVERS)
    }
    assert len(seen) == starts.SERVERS
