"""The guard that runs first in slurmstepd lets a step run only if the jail plugin will surely be loaded."""

import os
import struct
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
RAN = "the real slurmstepd ran"


class Guard:
    """The guard with its paths in a folder of the test."""

    def __init__(self, folder: Path, make: Callable[..., Path]) -> None:
        self.folder = folder
        self.plugin = folder / "spank_jail.so"
        self.good = {"slurm.conf": "ClusterName=x\n", "plugstack.conf": f"required {self.plugin} jail=/run/jail\n"}
        self.plugin.touch()
        self._program = make("guard_probe", folder, f"PROBE={folder}")

    def run(self, files: Mapping[str, str], *arguments: str, **acts: str) -> tuple[bytes, str]:
        """Returns what slurmd would read from it, and what the log got.

        Args:
            files: of the configuration.
            arguments: of the program.
            acts: ``shows`` and ``makes``, as tests/native/guard_probe.c has them.
        """
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
            env={
                **os.environ,
                "SLURM_CONF": str(conf / "slurm.conf"),
                **{f"PROBE_{name.upper()}": text for name, text in acts.items()},
            },
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


@pytest.fixture
def run_folder(guard: Guard) -> Iterator[Path]:
    """Stands for the pod's /run, a mount."""
    folder = guard.folder / "run"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "run", folder], check=True, timeout=30)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True, timeout=30)
        folder.rmdir()


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a mount namespace")
def test_what_is_secret_in_the_pod_is_covered_before_slurmstepd_begins(guard: Guard, run_folder: Path) -> None:
    secrets, volume = guard.folder / "secrets", guard.folder / "volume"
    hidden = [secrets / "slurm/slurm.key", volume / "roots/r1", run_folder / "own/slurm.key"]
    for path in hidden:
        path.parent.mkdir(parents=True)
        path.write_text("secret")
    wanted = ":".join(map(str, hidden))
    output, log = guard.run(guard.good, shows=wanted)
    assert log == ""
    assert output.decode().splitlines()[1:-1] == ["No such file or directory", "No such file or directory", "0"]
    assert [path.read_text() for path in hidden] == ["secret"] * 3, "nobody else loses sight of them"
    assert guard.run({}, "getenv", shows=wanted)[0].decode().splitlines()[1:-1] == ["6"] * 3, "the test can fail"


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a mount namespace")
def test_slurmstepd_writes_no_configuration_and_what_is_the_nodes(guard: Guard, run_folder: Path) -> None:
    configuration, jobs = run_folder / "slurm/conf", run_folder / "own/jobs"
    for folder in (configuration, jobs):
        folder.mkdir(parents=True)
    output, _ = guard.run(guard.good, makes=f"{configuration}/new:{jobs}/new")
    assert output.decode().splitlines()[1:-1] == ["Read-only file system", "done"]


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes a user")
@pytest.mark.parametrize("user", [0, 1234])
@pytest.mark.parametrize(
    ("what", "path", "outcome"),
    [
        ("open", "/proc/self/maps", "Permission denied"),
        ("open", "/proc/self/root/etc/passwd", "Permission denied"),
        ("open", "/proc/1/cmdline", "Permission denied"),
        ("open", "/etc/passwd", "done"),
        ("open", "/nowhere", "No such file or directory"),
    ],
)
def test_slurmstepd_opens_nothing_of_the_node_whoevers_the_job_is(
    guard: Guard, user: int, what: str, path: str, outcome: str
) -> None:
    assert told(guard, what, path, user) == outcome


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes a user")
def test_slurmstepd_reads_as_root_what_it_needs_of_its_tasks(guard: Guard) -> None:
    assert told(guard, "open", "/proc/1/stat", 0) == "done"
    assert told(guard, "open", "/proc/self/oom_score_adj", 0) == "done"
    assert told(guard, "open", "/proc/1/stat", 1234) == "Permission denied"


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes a user")
def test_slurmstepd_makes_a_users_folders_where_the_user_may_have_them(guard: Guard, tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(0o755)
    mine = tmp_path / "mine"
    mine.mkdir()
    mine.chmod(0o777)
    assert told(guard, "mkdir", f"{mine}/one", 1234) == "done"
    assert told(guard, "mkdir", f"{mine}//two//", 1234) == "done"
    assert told(guard, "mkdir", f"{mine}/one", 1234) == "File exists"
    assert told(guard, "mkdir", f"/proc/self/root{mine}/three", 1234) == "Permission denied"
    assert told(guard, "mkdir", f"/proc/self/root{mine}/three", 0) == "done", "the test can fail"
    assert sorted(each.name for each in mine.iterdir()) == ["one", "three", "two"]


def told(guard: Guard, what: str, path: str, user: int) -> str:
    """Return what one call of slurmstepd's, as a user, comes to."""
    return guard.run(guard.good, what, path, str(user))[0].decode().strip()
