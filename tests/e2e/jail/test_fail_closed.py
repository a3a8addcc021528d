"""No job ever runs outside the jail, and none is lost when a daemon dies.

A worker whose configuration would skip the plugin: tests/image/jail/test_without_plugin.py.
"""

from __future__ import annotations

import shlex

SLURMD = "cat /run/slurmd.pid 2>/dev/null || pidof slurmd"
WAITS = "until test -e ~/goes-on; do sleep 0.2; done"


def running(slurm, options: str, script: str) -> str:
    """The number of a job that runs, and waits in its script for the file goes-on."""
    slurm.sh("rm -f ~/goes-on ~/survivor.out ~/restart.out").ok()
    job = slurm.sh(f"sbatch --parsable {options} --wrap {shlex.quote(script)}").ok()
    slurm.wait("job running", lambda: slurm.sh(f"squeue -h -j {job} -o %T").stdout.strip() == "RUNNING", 30)
    return job


def test_kill_9_of_slurmd_ends_no_job(slurm):
    slurm.sh("rm -f ~/began-on-*").ok()
    task = f"touch ~/began-on-$(hostname); {WAITS}"
    batch = running(slurm, "-N2 -o ~/survivor.out", f"srun -N2 sh -c {shlex.quote(task)}; echo survived")
    slurm.wait("both tasks", lambda: slurm.sh("ls ~/began-on-cpu-0 ~/began-on-cpu-1").status == 0, 30)
    before = {pod: slurm.on_pod(pod, SLURMD).ok() for pod in ("cpu-0", "cpu-1")}
    for pod in before:
        slurm.on_pod(pod, f"kill -9 $({SLURMD})").ok()
    for pod, process in before.items():
        slurm.wait("another slurmd", lambda pod=pod, process=process: slurm.on_pod(pod, SLURMD).ok() != process, 60)
    slurm.sh("touch ~/goes-on").ok()
    slurm.wait("job done", lambda: not slurm.sh(f"squeue -h -j {batch} -o %T").stdout.strip(), 90)
    assert slurm.sh("cat ~/survivor.out").ok() == "survived"
    assert slurm.sh("srun -N2 echo new step").ok() == "new step\nnew step"


def test_a_restart_of_the_controller_loses_no_job(slurm):
    running(slurm, "-N1 -o ~/restart.out", f"{WAITS}; echo still here")
    slurm.kubectl("delete", "pod", "slurm-controller-0").ok()
    slurm.wait("slurmctld is back", lambda: slurm.sh("scontrol ping").stdout.count("UP") == 1, 120)
    slurm.sh("touch ~/goes-on").ok()
    slurm.wait("job done", lambda: "still here" in slurm.sh("cat ~/restart.out").stdout, 120)


def test_workers_can_talk_to_each_other_but_not_to_the_rest_api(slurm):
    probe = "srun -n1 python3 -c 'import socket; socket.create_connection((\"{}\", {}), 3); print(1)'"
    to_rest = probe.format("slurm-rest", 6820)
    assert slurm.sh(probe.format("slurm-controller", 6817)).ok() == "1"
    assert slurm.sh(to_rest).status != 0
    try:
        # The operator would restore them at once.
        slurm.kubectl("scale", "deployment", "slurm-operator", "--replicas=0").ok()
        slurm.kubectl(
            *("wait", "--for=delete", "pod", "-l", "app.kubernetes.io/component=operator", "--timeout=150s"),
            seconds=170,
        ).ok()
        slurm.kubectl("delete", "networkpolicy", "--all").ok()
        slurm.wait("REST answers without policies", lambda: slurm.sh(to_rest).stdout.strip() == "1", 30)
    finally:
        slurm.kubectl("scale", "deployment", "slurm-operator", "--replicas=1").ok()
    slurm.wait("the operator restored them", lambda: slurm.sh(to_rest).status != 0, 120)


def test_a_node_whose_jail_breaks_says_why_is_drained_and_recovers_by_itself(slurm):
    """One kind of break; tests/image/jail/test_fail_closed.py has the others."""
    spoil, mend = (f"mount -o remount,bind,{how} /run/jail" for how in ("ro", "rw"))
    sentence = "is read-only"
    script = "touch ~/waits; until [ -e ~/goes-on ]; do sleep 0.2; done; srun -n1 --overlap cat /etc/hostname"
    slurm.sh("rm -f ~/waits ~/goes-on ~/late-step.*").ok()
    slurm.sh(f"sbatch --quiet -w cpu-1 -o ~/late-step.out -e ~/late-step.err --wrap {script!r}").ok()
    slurm.wait("a job that runs on", lambda: slurm.sh("ls ~/waits").status == 0, 60)
    slurm.on_pod("cpu-1", spoil).ok()
    try:
        reason = slurm.wait("a drain", lambda: slurm.sh("sinfo -h -n cpu-1 -o %E | grep pulumi-slurm:jail").stdout, 60)
        assert sentence in reason
        slurm.sh("touch ~/goes-on").ok()
        slurm.wait("the step's end", lambda: not slurm.sh("squeue -h").stdout.strip(), 60)
    finally:
        slurm.on_pod("cpu-1", mend).ok()
        slurm.sh("touch ~/goes-on").ok()
    assert slurm.sh("cat ~/late-step.out").stdout == ""
    said = slurm.sh("cat ~/late-step.err").ok()
    slurm.wait("the drain is lifted", slurm.all_idle, 120)
    assert slurm.sh("srun -w cpu-1 -n1 echo works again").ok() == "works again"
    assert "this node can't run your job inside the jail" in said
    assert sentence in said
