"""Features of Slurm that need little of this project's: each is tried once, by the ordinary user (docs/tested.md)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

CORE_PATTERN = Path("/proc/sys/kernel/core_pattern")
RESERVE = "scontrol create reservation=class nodes=ALL starttime=now duration=10"
FREE = "scontrol delete reservation=class"
ENDS = "ends() { while squeue -h -j $1 -o %i 2>/dev/null | grep -q .; do sleep 0.2; done; }"
TRIGGER = "strigger --set --node --down --program=/bin/true"


@pytest.fixture(autouse=True)
def folder(slurm) -> Iterator[None]:
    """An empty folder of the user's, in which his scripts begin, and none of his jobs afterwards."""
    slurm.sh("mkdir features").ok()
    yield
    slurm.sh("scancel --me; rm -r features").ok()


def administer(slurm, command: str):
    """A command of SlurmUser's, as `kubectl exec` runs it."""
    return slurm.on_pod("slurm-controller-0", command)


def run(slurm, script: str) -> str:
    return slurm.sh(f"cd features; {ENDS}\n{script}").ok()


def test_a_reservation_keeps_its_nodes_for_an_account(slurm):
    administer(slurm, f"sacctmgr -Qi add account class && {RESERVE} accounts=class").ok()
    try:
        script = """
            waits=$(sbatch --parsable -n1 -t1 -o /dev/null --wrap true)
            srun -n1 -t1 -A class --reservation=class echo ran
            squeue -h -j $waits -o '%T %r'
        """
        assert run(slurm, script).startswith("ran\nPENDING ")
    finally:
        administer(slurm, f"{FREE}; sacctmgr -Qi delete account class").ok()


def test_a_reservation_names_no_users(slurm):
    """People are in the jail alone, and slurmctld of 26.05 looks a reservation's users up in its pod (limits.md)."""
    refused = administer(slurm, f"{RESERVE} users=dev")
    assert refused.stderr.startswith("Error creating the reservation: Unspecified error"), refused
    assert administer(slurm, f"{RESERVE} users=root && {FREE}").status == 0, "its own users it knows"


def test_a_job_waits_for_a_licence_until_the_one_before_gives_it_back(slurm):
    script = """
        submit="sbatch --parsable -n1 -L compiler:1 -o /dev/null --wrap"
        holds=$($submit 'sleep 600') waits=$($submit true)
        until [ "$(squeue -h -j $waits -o '%T %r')" = 'PENDING Licenses' ]; do sleep 0.2; done
        scontrol show licenses compiler | grep -o Used=1
        scancel $holds; ends $waits
        scontrol show job $waits | grep -o JobState=COMPLETED
    """
    assert run(slurm, script).split() == ["Used=1", "JobState=COMPLETED"]


def test_each_task_of_an_array_knows_its_number(slurm):
    script = """
        sbatch -Q -n1 --array=3,5 -o %a --wrap 'echo $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT'
        until [ "$(cat 3 5 2>/dev/null | wc -l)" = 2 ]; do sleep 0.2; done
        cat 3 5
    """
    assert run(slurm, script).splitlines() == ["3 of 2", "5 of 2"]


def test_sattach_shows_what_a_running_step_writes(slurm):
    script = """
        writes='srun sh -c "until [ -e read ]; do echo tick; sleep 0.2; done"'
        job=$(sbatch --parsable -n1 -o /dev/null --wrap "$writes")
        until sattach $job.0 2>/dev/null | grep -m1 tick; do sleep 0.2; done
        touch read; ends $job
    """
    assert run(slurm, script) == "tick"


def test_triggers_are_slurms_own_users_alone(slurm):
    """slurmctld runs a trigger's program in its own pod."""
    assert slurm.sh(TRIGGER).status != 0
    own = f"strigger --get --noheader; {TRIGGER}; strigger --get --noheader; strigger --clear --user=slurm"
    (shown,) = administer(slurm, own).ok().splitlines()
    assert " down " in shown


def test_a_job_that_crashes_leaves_its_core_in_its_folder(slurm):
    pattern = CORE_PATTERN.read_text().strip()
    if pattern.startswith(("|", "/")):
        # The pattern is of the whole machine, where other clusters may run: no test may change it.
        pytest.skip(f"the kernel of this machine takes cores elsewhere: {pattern}")
    crash = 'ulimit -c unlimited; sh -c "kill -SEGV \\$\\$"; ls'
    assert "core" in run(slurm, f"sbatch --wait -Q -n1 -o said --wrap '{crash}'; cat said").splitlines()[-2]


def test_a_job_has_the_environment_of_its_users_login(slurm):
    script = """
        cp ~/.profile kept; echo export OF_THE_PROFILE=mine >> ~/.profile
        sbatch --wait -Q -n1 --export=NONE --get-user-env -o said --wrap 'echo $OF_THE_PROFILE $HOME'
        cp kept ~/.profile; cat said
    """
    assert run(slurm, script) == "mine /home/dev"


def test_x11_is_refused_in_words(slurm):
    refused = slurm.sh("DISPLAY=localhost:10.0 srun -n1 --x11 true")
    assert refused.status != 0
    assert "x11 forwarding" in refused.stderr.lower(), refused


def test_burst_buffers_are_off(slurm):
    assert administer(slurm, "scontrol show burst").ok() == ""
    assert "BurstBufferType         = (null)" in administer(slurm, "scontrol show config").ok()
