"""slurmctld's plugin refuses jobs that slurmctld can't keep (native/plugins/job_submit_jail.c)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

HERE, NATIVE = Path(__file__).parent, Path("native")
KIB = 1024
Submit = Callable[..., str]


@pytest.fixture(scope="module")
def submit(tmp_path_factory: pytest.TempPathFactory) -> Submit:
    """Has the plugin judge a job, and gives its sentence."""
    probe = tmp_path_factory.mktemp("submit") / "probe"
    sources = (HERE / "job_submit_probe.c", NATIVE / "plugins" / "job_submit_jail.c")
    command = ["gcc", "-D_GNU_SOURCE", "-g", "-fsanitize=address,undefined", "-o", str(probe), *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr

    def submitted(line: int | str = 9, arguments: str = "9", spank: str = "SPANK_A=1,B=") -> str:
        command = [str(probe), str(line), arguments, spank]
        environ = {"ASAN_OPTIONS": "detect_leaks=0"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environ)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return submitted


def test_an_ordinary_job_is_taken(submit: Submit) -> None:
    assert submit() == submit(line="-", arguments="0") == "taken\n"
    variables = ",".join(f"{name * 60}={'a' * 200}" for name in "abcdefgh")
    assert submit(400 * KIB, f"{400 * KIB},{50 * KIB}", f"{variables},a=1,aa=1") == "taken\n"


def test_a_job_whose_prologs_could_not_start_is_refused(submit: Submit) -> None:
    """Slurm would drain its nodes."""
    long = "a" * 40 * KIB
    assert submit(spank=f"A={long},B={long}") == "the variables for prologs are longer than 64 KiB\n"


@pytest.mark.parametrize(
    "variables",
    ["A=1,B=2,A=3", "A", "=1", ",A=1", f"{'A' * 256}=1", "A=1,A"],
    ids=["one name twice", "no value", "no name", "nothing", "too long a name", "a name alone"],
)
def test_variables_that_lead_slurmctld_past_its_array_are_refused(submit: Submit, variables: str) -> None:
    """It merges them by their names, and writes to as many as were sent."""
    assert submit(spank=variables).startswith("each variable for prologs wants a name of its own")


def test_more_variables_than_slurmctld_can_compare_are_refused(submit: Submit) -> None:
    many = [f"A{number}=1" for number in range(257)]
    assert submit(spank=",".join(many)) == "there are more than 256 variables for prologs\n"
    assert submit(spank=",".join(many[:-1])) == "taken\n"


def test_a_job_of_a_federation_is_refused(submit: Submit) -> None:
    """slurmctld looks for the federation, which it does not have."""
    assert submit("f0") == "taken\n"
    assert submit("f1").startswith("the job names clusters of a federation")


@pytest.mark.parametrize(
    ("nodes", "becomes"), [("n1,n2", "taken"), ("", "taken"), (",", "the list"), (" \t", "the list")]
)
def test_a_running_job_keeps_a_node(submit: Submit, nodes: str, becomes: str) -> None:
    """slurmctld, started anew, ends by a job that has none. Without a list its job waits for any nodes."""
    assert submit(f"m{nodes}").startswith(becomes)


@pytest.mark.parametrize(
    ("host", "becomes"), [("10.1.2.3", "taken"), ("::1", "taken"), ("a.b", "the host"), ("", "the h")]
)
def test_slurmctld_looks_up_no_users_host(submit: Submit, host: str, becomes: str) -> None:
    """It would, under the lock of all jobs."""
    assert submit(f"r{host}").startswith(becomes)


@pytest.mark.parametrize(("switch", "unset"), [("n", 0xFFFE), ("o", 0xFE), ("k", 0xFFFE)])
def test_a_job_with_which_slurmctld_would_not_start_again_is_refused(submit: Submit, switch: str, unset: int) -> None:
    assert submit(f"{switch}1") == submit(f"{switch}{unset}") == "taken\n"
    assert submit(f"{switch}7").startswith("contiguous, overcommit and kill_on_node_fail are 0 or 1")


@pytest.mark.parametrize(
    ("line", "arguments"),
    [(1025 * KIB, "9"), (9, f"{600 * KIB},{500 * KIB}"), (500 * KIB, f"{600 * KIB}"), (f"c{1025 * KIB}", "9")],
)
def test_a_job_that_would_fill_slurmctlds_memory_is_refused(submit: Submit, line: int | str, arguments: str) -> None:
    assert submit(line, arguments).endswith("longer than 1 MiB: write them to a file\n")
