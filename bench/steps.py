"""What the plugin costs a step: `srun true` on a node with it ÷ on one without it, alternately, one and 64 at once."""

from __future__ import annotations

import json
import random

from bench.measurement import Measurement, median_milliseconds, run
from devcluster.up import Cluster

REPETITIONS = 200
AT_ONCE = 64
ROUNDS = 6
WITH, WITHOUT = "cpu-0", "cpu-1"

# Runs on the login node, so that neither SSH nor Python's start is measured: a step inside a job that holds both nodes.
# Which of the two goes first is drawn by chance each time.
TIMER = f"""
import json, subprocess, sys, time
at_once, order = json.load(sys.stdin)
taken = {{"{WITH}": [], "{WITHOUT}": []}}
for node in order:
    began = time.perf_counter()
    step = ["srun", "-n1", "-N1", "-w", node, "--overlap", "--mem=1M", "-D", "/tmp", "true"]
    steps = [subprocess.Popen(step) for _ in range(at_once)]
    assert not any(step.wait(120) for step in steps)
    taken[node].append(time.perf_counter() - began)
print(json.dumps(taken))
"""

# Only for this measurement: the watcher that would stop slurmd is halted, the node's own copy of the configuration
# loses the plugin, and the gate in front of slurmstepd is taken out of the way. The pod is thrown away afterwards.
WITHOUT_PLUGIN = """
set -e
for process in /proc/[0-9]*; do
    if [ "$(cat $process/comm)" = python3 ] && grep -q worker $process/cmdline; then kill -STOP ${process#/proc/}; fi
done
: > /run/slurm/conf/plugstack.conf
ln -sf /opt/slurm/libexec/slurmstepd /opt/slurm/sbin/slurmstepd
"""


def measure(cluster: Cluster) -> list[Measurement]:
    """Median of 200 single steps each way, and of 6 rounds of 64 steps at once."""
    kubectl = [str(cluster.binaries / "kubectl"), "--kubeconfig", str(cluster.kubeconfig), "-n", "slurm"]
    run([*kubectl, "exec", WITHOUT, "--", "sh", "-c", WITHOUT_PLUGIN], deadline_seconds=30)
    try:
        one = _ratio(cluster, "srun true with the plugin ÷ without", 1, REPETITIONS)
        many = _ratio(cluster, f"{AT_ONCE} steps at once with the plugin ÷ without", AT_ONCE, ROUNDS)
    finally:
        run([*kubectl, "delete", "pod", WITHOUT], deadline_seconds=180)
    return [one, many]


def _ratio(cluster: Cluster, name: str, at_once: int, repetitions: int) -> Measurement:
    order = [node for _ in range(repetitions) for node in random.sample([WITH, WITHOUT], 2)]
    given = json.dumps([at_once, order])
    script = f"cat > timer.py <<'P'\n{TIMER}\nP\nsalloc -Q -N2 python3 timer.py <<'O'\n{given}\nO\n"
    taken = json.loads(run(cluster.login.run_command([script]), deadline_seconds=600))
    with_plugin, without = median_milliseconds(taken[WITH]), median_milliseconds(taken[WITHOUT])
    return Measurement(name, with_plugin / without, 1.05, detail={"with, ms": with_plugin, "without, ms": without})
