"""No job ever runs outside the jail, and none is lost when a daemon dies."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import pytest

PLUGIN = "/opt/slurm/lib/slurm-wlm/spank_jail.so"


@contextlib.contextmanager
def active_configuration(slurm, file: str, old: str, new: str) -> Iterator[None]:
    """The active configuration edited behind the operator's back, put right again afterwards."""
    before = slurm.get("configmap", "slurm-config")["data"]
    assert old in before[file]
    try:
        slurm.kubectl("scale", "deployment/slurm-operator", "--replicas=0").ok()
        slurm.wait("no operator", lambda: not slurm.get("pods", "-l", "app.kubernetes.io/component=operator")["items"])
        _write(slurm, {**before, file: before[file].replace(old, new)}, file)
        yield
    finally:
        _write(slurm, before, file)
        slurm.kubectl("delete", "pod", "cpu-1", "--wait=false").ok()
        slurm.kubectl("scale", "deployment/slurm-operator", "--replicas=1").ok()
        slurm.kubectl("rollout", "status", "deployment/slurm-operator", "--timeout=120s", seconds=130).ok()
        slurm.wait("all nodes idle again", slurm.all_idle, 240)
        cached = f"cat /run/slurm/conf/{file}"
        slurm.wait("the login node's copy", lambda: slurm.on_pod("slurm-login-0", cached).stdout == before[file], 90)


def _write(slurm, data: dict[str, str], changed: str) -> None:
    manifest = slurm.get("configmap", "slurm-config")
    manifest["data"] = data
    manifest["metadata"].pop("managedFields", None)
    slurm.kubectl("replace", "-f", "-", text=json.dumps(manifest)).ok()
    # A restart, since kubelet takes up to a minute to show a running pod its new files.
    slurm.kubectl("delete", "pod", "slurm-controller-0").ok()
    shown = f"cat /etc/slurm/{changed}"
    slurm.wait("the file", lambda: slurm.on_pod("slurm-controller-0", shown).stdout == data[changed], 180)
    slurm.wait("slurmctld", lambda: slurm.on_pod("slurm-controller-0", "scontrol reconfigure").status == 0, 90)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("plugstack.conf", "required", "optional"),
        ("plugstack.conf", PLUGIN, "/opt/slurm/lib/slurm-wlm/no_such_plugin.so"),
        ("slurm.conf", "ClusterName=", "PlugStackConfig=plugstack.conf\nClusterName="),
    ],
    ids=["optional", "plugin missing", "relative PlugStackConfig"],
)
def test_a_worker_that_would_not_load_the_plugin_is_never_ready_and_runs_nothing(slurm, file, old, new):
    with active_configuration(slurm, file, old, new):
        slurm.kubectl("delete", "pod", "cpu-1").ok()
        ran = slurm.sh("srun --immediate=15 -w cpu-1 -n1 ls /run/secrets; true", seconds=40)
        assert "slurm" not in ran.stdout.split()
        pod = slurm.wait("cpu-1 started", lambda: slurm.get("pod", "cpu-1")["status"].get("containerStatuses"), 60)
        assert pod[0]["ready"] is False
        logs = slurm.wait(
            "a sentence in the worker's log",
            lambda: [
                line
                for line in slurm.kubectl("logs", "cpu-1").text.splitlines()
                if "plugstack" in line.lower() or "plugin" in line.lower()
            ],
            60,
        )
        assert logs


def test_kill_9_of_slurmd_ends_no_job(slurm):
    batch = slurm.sh("sbatch --parsable -N2 -o ~/survivor.out --wrap 'srun -N2 sleep 20; echo survived'").ok()
    slurm.wait("job running", lambda: slurm.sh(f"squeue -h -j {batch} -o %T").stdout.strip() == "RUNNING", 30)
    for pod in ("cpu-0", "cpu-1"):
        slurm.on_pod(pod, "kill -9 $(cat /run/slurmd.pid 2>/dev/null || pidof slurmd)").ok()
    slurm.wait("job done", lambda: not slurm.sh(f"squeue -h -j {batch} -o %T").stdout.strip(), 90)
    assert slurm.sh("cat ~/survivor.out").ok() == "survived"
    assert slurm.sh("srun -N2 echo new step").ok() == "new step\nnew step"


def test_a_restart_of_the_controller_loses_no_job(slurm):
    batch = slurm.sh("sbatch --parsable -N1 -o ~/restart.out --wrap 'sleep 15; echo still here'").ok()
    slurm.wait("job running", lambda: slurm.sh(f"squeue -h -j {batch} -o %T").stdout.strip() == "RUNNING", 30)
    slurm.kubectl("delete", "pod", "slurm-controller-0").ok()
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
            *("wait", "--for=delete", "pod", "-l", "app.kubernetes.io/component=operator", "--timeout=60s"), seconds=70
        ).ok()
        slurm.kubectl("delete", "networkpolicy", "--all").ok()
        slurm.wait("REST answers without policies", lambda: slurm.sh(to_rest).stdout.strip() == "1", 30)
    finally:
        slurm.kubectl("scale", "deployment", "slurm-operator", "--replicas=1").ok()
    slurm.wait("the operator restored them", lambda: slurm.sh(to_rest).status != 0, 120)


@pytest.mark.parametrize(
    ("spoil", "mend", "sentence"),
    [
        # The node writes a marker that is gone again, if nothing is in the way of the new one.
        (
            "mkdir /run/jail/run/.jail-ready.new && rm /run/jail/run/.jail-ready",
            "rmdir /run/jail/run/.jail-ready.new",
            ".jail-ready is missing",
        ),
        ("mount -o remount,bind,ro /run/jail", "mount -o remount,bind,rw /run/jail", "is read-only"),
    ],
    ids=["half built", "read-only"],
)
def test_a_node_whose_jail_breaks_says_why_is_drained_and_recovers_by_itself(slurm, spoil, mend, sentence):
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


def test_a_job_for_which_no_namespaces_are_to_be_had_runs_nothing(slurm):
    job_init = "/opt/slurm/libexec/job_init"
    slurm.on_pod("cpu-1", f"mount --bind /dev/null {job_init}").ok()
    try:
        ran = slurm.sh("srun --immediate=10 -w cpu-1 -n1 echo ran outside", seconds=40)
        reason = slurm.wait("a drain", lambda: slurm.sh("sinfo -h -n cpu-1 -o %E | grep pulumi-slurm:jail").stdout, 60)
    finally:
        slurm.on_pod("cpu-1", f"umount {job_init}").ok()
    assert ran.status != 0
    assert "ran outside" not in ran.stdout
    assert f"{job_init}: Permission denied" in reason
    # The node may have been drained before the job came.
    assert f"{job_init}: Permission denied" in ran.stderr or "allocate resources" in ran.stderr, ran.stderr
    slurm.wait("the drain is lifted", slurm.all_idle, 120)
    assert slurm.sh("srun -w cpu-1 -n1 echo works again").ok() == "works again"
