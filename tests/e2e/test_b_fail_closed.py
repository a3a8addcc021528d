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
    slurm.kubectl("scale", "deployment/slurm-operator", "--replicas=0").ok()
    slurm.wait("no operator", lambda: not slurm.get("pods", "-l", "app.kubernetes.io/component=operator")["items"])
    before = slurm.get("configmap", "slurm-config")["data"]
    assert old in before[file]
    try:
        _write(slurm, {**before, file: before[file].replace(old, new)})
        yield
    finally:
        _write(slurm, before)
        slurm.kubectl("delete", "pod", "cpu-1", "--wait=false").ok()
        slurm.kubectl("scale", "deployment/slurm-operator", "--replicas=1").ok()
        slurm.kubectl("rollout", "status", "deployment/slurm-operator", "--timeout=60s", seconds=70).ok()
        slurm.wait("all nodes idle again", slurm.all_idle, 120)


def _write(slurm, data: dict[str, str]) -> None:
    manifest = slurm.get("configmap", "slurm-config")
    manifest["data"] = data
    manifest["metadata"].pop("managedFields", None)
    slurm.kubectl("replace", "-f", "-", text=json.dumps(manifest)).ok()
    # A restart, since kubelet takes up to a minute to show a running pod its new files.
    slurm.kubectl("delete", "pod", "slurm-controller-0").ok()
    slurm.kubectl("wait", "--for=condition=Ready", "pod/slurm-controller-0", "--timeout=60s", seconds=70)


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
    probe = "python3 -c 'import socket; socket.create_connection((\"{}\", {}), 3); print(1)'"
    assert slurm.sh("srun -n1 " + probe.format("slurm-controller", 6817)).ok() == "1"
    assert slurm.sh("srun -n1 " + probe.format("slurm-rest", 6820)).status != 0
    slurm.kubectl("delete", "networkpolicy", "--all").ok()
    try:
        answered = slurm.wait(
            "REST answers without policies",
            lambda: slurm.sh("srun -n1 " + probe.format("slurm-rest", 6820)).stdout.strip() == "1",
            30,
        )
        assert answered
    finally:
        slurm.pulumi("up", "--yes", "--skip-preview", "--refresh").ok()
