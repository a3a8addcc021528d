import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from devcluster.machine.bootstrap import CHECKOUT
from tests.native import message_programs as programs

Make = Callable[..., Path]


def _make(target: str, out: Path, *variables: str) -> Path:
    """Builds one program of native/ with the sanitizers."""
    settings = [f"OUT={out}", "CFLAGS=-O1 -g", *variables]
    command = ["make", "-s", "-C", str(CHECKOUT / "native"), *settings, str(out / target)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert built.returncode == 0, built.stderr
    return out / target


@pytest.fixture(scope="session")
def make() -> Make:
    return _make


@pytest.fixture(scope="session")
def jail_steps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _make("jail_steps", tmp_path_factory.mktemp("native"))


@pytest.fixture(scope="session")
def message_programs(tmp_path_factory: pytest.TempPathFactory, make: Make) -> Path:
    """Returns the folder of programs that receive messages (tests/native/message_programs.py)."""
    folder = tmp_path_factory.mktemp("messages")
    programs.build(folder, make)
    return folder


@pytest.fixture(scope="session")
def ask(message_programs: Path) -> programs.Ask:
    return programs.asker(message_programs)


class Guard:
    """The guard with its paths in a folder of the test."""

    def __init__(self, folder: Path, make: Callable[..., Path]) -> None:
        self.folder = folder
        self.plugin = folder / "spank_jail.so"
        self.good = {"slurm.conf": "ClusterName=x\n", "plugstack.conf": f"required {self.plugin} jail=/run/jail\n"}
        self.plugin.touch()
        self.within: tuple[str, ...] = ()
        self._program = make("guard_probe", folder, f"PROBE={folder}")

    def run(self, files: Mapping[str, str], *arguments: str, **acts: str) -> tuple[bytes, str]:
        """Returns what slurmd would read from it, and what the log got.

        Args:
            files: of the configuration.
            arguments: of the program.
            acts: ``shows``, ``makes``, ``view``, ``threads``, ``timers``, as tests/native/stepd/guard_probe.c has them.
        """
        environment = self._environment(files, **acts)
        command = [*self.within, self._program, *arguments]
        finished = subprocess.run(
            command, input=b"the step\n", capture_output=True, timeout=30, env=environment, check=False
        )
        return finished.stdout, (self.folder / "log").read_text()

    @contextmanager
    def slurmd(self) -> Iterator[Callable[[], str]]:
        """Starts what stands for slurmd. It starts a slurmstepd at each call, which returns the view of that."""
        command = [*self.within, self._program, "slurmd"]
        environment, pipe = self._environment(self.good), subprocess.PIPE
        with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True) as slurmd:
            assert slurmd.stdin
            assert slurmd.stdout
            asked, told = slurmd.stdin, slurmd.stdout
            assert told.readline() == "ready\n"

            def view() -> str:
                asked.write("start\n")
                asked.flush()
                assert told.readline() == "the real slurmstepd ran\n"
                return told.readline().strip()

            yield view
            asked.close()

    def _environment(self, files: Mapping[str, str], **acts: str) -> dict[str, str]:
        """Writes the configuration and returns the environment that names it."""
        conf = self.folder / "conf"
        conf.mkdir(exist_ok=True)
        for old in conf.iterdir():
            old.unlink()
        for name, text in files.items():
            (conf / name).write_text(text)
        (self.folder / "log").write_text("")
        told = {f"PROBE_{name.upper()}": text for name, text in acts.items()}
        return {**os.environ, "SLURM_CONF": str(conf / "slurm.conf"), **told}


@pytest.fixture(scope="session")
def guard(tmp_path_factory: pytest.TempPathFactory, make: Callable[..., Path]) -> Guard:
    return Guard(tmp_path_factory.mktemp("guard"), make)


@contextmanager
def mounted(folder: Path) -> Iterator[Path]:
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", folder.name, folder], check=True, timeout=30)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True, timeout=30)
        folder.rmdir()
