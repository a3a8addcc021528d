"""Measures the door to Slurm's authentication: a step through it ÷ one through Slurm's own socket, alternately.

A login pod's own root has both sockets. SLURM_SACK_SOCKET names the one that Slurm's commands use.
"""

from __future__ import annotations

import json
import random

from bench.jobs.steps import in_slurm
from bench.measurement import Measurement, middle_milliseconds, run
from devcluster.cli.login import USER
from devcluster.cli.up import Cluster

REPETITIONS = 500
LOGIN = "slurm-login-0"
OWN, DOOR = "/run/slurm/sack.socket", "/run/slurm/door/sack.socket"
"""In jobs and logins, native/jail/job_mounts.c shows the second socket's folder in place of the first's."""

TIMER = """
import json, os, subprocess, sys, time
taken = {}
for socket in json.load(sys.stdin):
    environment = {**os.environ, "SLURM_SACK_SOCKET": socket}
    began = time.perf_counter()
    step = ["srun", "-n1", "-N1", "--overlap", "--mem=1M", "-D", "/tmp", "true"]
    subprocess.run(step, check=True, timeout=60, stdin=subprocess.DEVNULL, env=environment)
    taken.setdefault(socket, []).append(time.perf_counter() - began)
print(json.dumps(taken))
"""

# As the ordinary user, since both sockets answer him.
IN_A_JOB = f"""
cd /tmp
export PATH=/opt/slurm/bin:$PATH SLURM_CONF=/run/slurm/conf/slurm.conf
exec setpriv --reuid={USER} --regid="$(id -g {USER})" --init-groups salloc -Q -N1 python3 -c "$1"
"""


def measure(cluster: Cluster) -> list[Measurement]:
    """Measure medians of 500 steps each way, inside one job, in random order."""
    order = [socket for _ in range(REPETITIONS) for socket in random.sample([OWN, DOOR], 2)]
    command = [*in_slurm(cluster), "exec", "-i", LOGIN, "--", "sh", "-c", IN_A_JOB, "sh", TIMER]
    taken = json.loads(run(command, deadline_seconds=1200, given=json.dumps(order)))
    door, own = (middle_milliseconds(taken[socket]) for socket in (DOOR, OWN))
    detail = {"door, ms": door, "Slurm's own, ms": own}
    return [Measurement("srun true through the door ÷ Slurm's own socket", door / own, 1.02, detail=detail)]
