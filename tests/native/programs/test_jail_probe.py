"""A node's jail probe: the step that a node starts by itself before it takes jobs; under sanitizers."""

import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.native.job_trial import Trial

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="makes namespaces")

PERL = "#!/usr/bin/perl\n"


@pytest.fixture(scope="module")
def node_probe(tmp_path_factory: pytest.TempPathFactory, make: Callable[..., Path]) -> Trial:
    """Return what a node asks itself before it takes jobs: a step of its own."""
    return Trial(tmp_path_factory.mktemp("trial"), make, program="jail_probe_tested")


def shell(content: str, mode: str = "755") -> str:
    """Shell that puts another file in the place of the jail's /bin/sh."""
    return f"""
        printf '%s' {shlex.quote(content)} > "$JAIL/shell"
        chmod {mode} "$JAIL/shell"
        mount --bind "$JAIL/shell" "$JAIL/bin/sh"
    """


PROMISES = (
    "open(my $facts, '<', '/proc/self/status') or exit 9; my $status = join('', <$facts>);"
    " exit 8 unless $< == 65534 && $status =~ /^Groups:\\s*$/m && $status =~ /^CapPrm:\\s*0+$/m;"
    " exit 7 if defined(fork);"
    " exit 6 if open(my $file, '>', '/tmp/x') && syswrite($file, 'x'); exit 0"
)
"""An ordinary user's process that has no child and writes no file."""


def test_a_nodes_jail_probe_runs_a_step_as_nobody_with_nothing_to_spend(node_probe: Trial) -> None:
    # The sentence of the trial before keeps jobs away, and not the next trial.
    before = f"echo no job can run > {node_probe.folder}/broken"
    said = node_probe.run(spoil=f"{before}\n{shell(PERL + PROMISES)}")
    assert said.lines == []
    assert not list((node_probe.folder / "jobs").iterdir())


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (shell(PERL + "exit 3"), "a test step's /bin/sh ended with 3"),
        (shell(PERL + "exit 127"), "ended with 127: a library that it loads is missing"),
        (shell(PERL + "kill 9, $$"), "a test step's /bin/sh was ended by signal 9"),
        (shell(PERL + "kill 7, $$"), "was ended by signal 7 (SIGBUS): the shared storage does not give what is in"),
        (shell(PERL + "sleep 1 while 1"), "a test step did not end within 3 s"),
        (shell("#!/nowhere"), "a test step could not start the jail's /bin/sh: No such file or directory"),
        (shell(PERL, "644"), "a test step could not start the jail's /bin/sh: Permission denied"),
        ('rm "$JAIL/run/.jail-ready"', "is missing: this node's view of the jail is not complete"),
    ],
    ids=[
        "fails",
        "is not loaded",
        "is killed",
        "is not given",
        "hangs",
        "is for another machine",
        "is not to be run",
        "half built",
    ],
)
def test_a_node_whose_steps_do_not_work_says_why(node_probe: Trial, spoil: str, sentence: str) -> None:
    said = node_probe.run(spoil=spoil, wrap="!")
    assert len(said.lines) == 1
    assert sentence in said.lines[0]
