"""What the door to Slurm's authentication costs: a step through it ÷ one through Slurm's own socket, alternately.

Both sockets are to be seen in a login pod's own root; SLURM_SACK_SOCKET names the one that Slurm's commands ask.
"""

from __future__ import annotations

import json
import random

from bench.measurement import Measurement, median_milliseconds, run
from bench.steps import in_slurm
from devcluster.cli.login import USER
from devcluster.cli.up import Cluster

REPETITIONS = 500
LOGIN = "slurm-login-0"
OWN, DOOR = "/run/slurm/sack.socket", "/run/slurm/door/sack.socket"
"""native/jail/job_mounts.c shows the folder of the second in the place of the first's, in jobs and logins."""

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

# As the ordinary user, whom both sockets answer.
IN_A_JOB = f"""
cd /tmp
export PATH=/opt/slurm/bin:$PATH SLURM_CONF=/run/slurm/conf/slurm.conf
exec setpriv --reuid={USER} --regid="$(id -g {USER})" --init-groups salloc -Q -N1 python3 -c "$1"
"""


def measure(cluster: Cluster) -> list[Measurement]:
    """Medians of 500 steps each way, inside one job, in an order drawn by chance."""
    order = [socket for _ in range(REPETITIONS) for socket in random.sample([OWN, DOOR], 2)]
    command = [*in_slurm(cluster), "exec", "-i", LOGIN, "--", "sh", "-c", IN_A_JOB, "sh", TIMER]
    taken = json.loads(run(command, deadline_seconds=1200, given=json.dumps(order)))
    door, own = (median_milliseconds(taken[socket]) for socket in (DOOR, OWN))
    detail = {"door, ms": door, "Slurm's own, ms": own}
    return [Measurement("srun true through the door ÷ Slurm's own socket", door / own, 1.02, detail=detail)]
