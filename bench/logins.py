"""Measures the jail's cost for a login: `ssh true` ÷ the same to an sshd without the PAM module, alternately."""

from __future__ import annotations

import json
import random
import statistics

from bench.measurement import Measurement, run
from devcluster.cli.up import Cluster

REPETITIONS = 100
LOGIN = "slurm-login-0"
JAIL, PLAIN = 22, 2222

# Only for this measurement, in mounts of its own, since the pod's root is read-only. Users' homes are not in the pod's
# root: a login without the jail begins in "/".
START_PLAIN = f"""
set -e
cp -r /etc/pam.d /run/plain-pam.d
sed -i /pam_jail/d /run/plain-pam.d/sshd
sed 's/^Port .*/Port {PLAIN}/; s,^PidFile .*,PidFile /run/sshd-plain.pid,' /etc/ssh/sshd_config > /run/sshd-plain.conf
unshare -m sh -ec 'mount --bind /run/plain-pam.d /etc/pam.d; exec /usr/sbin/sshd -f /run/sshd-plain.conf'
"""
STOP_PLAIN = "kill $(cat /run/sshd-plain.pid); rm -rf /run/plain-pam.d /run/sshd-plain.conf"

# On the login node itself, to leave out the network.
TIMER = """
import json, subprocess, sys, time
taken = {}
for port in json.load(sys.stdin):
    options = ["-oStrictHostKeyChecking=no", "-oUserKnownHostsFile=/dev/null", "-oLogLevel=QUIET"]
    began = time.perf_counter()
    command = ["ssh", "-p", str(port), "-i", "bench_key", *options, "localhost", "true"]
    subprocess.run(command, check=True, timeout=60, stdin=subprocess.DEVNULL)
    taken.setdefault(port, []).append(time.perf_counter() - began)
print(json.dumps(taken))
"""


def measure(cluster: Cluster) -> list[Measurement]:
    """Measure the lower quartile of 100 logins each way.

    By chance a login waits for one delayed acknowledgement of TCP or for none: 43 ms, on both sides alike. A median
    falls on one of the two. The lower quartile is of those that wait for none.
    """
    kubectl = [str(cluster.binaries / "kubectl"), "--kubeconfig", str(cluster.kubeconfig), "-n", "slurm"]
    order = [port for _ in range(REPETITIONS) for port in random.sample([JAIL, PLAIN], 2)]
    key = cluster.login.key.read_text()
    script = (
        f"umask 077; cat > bench_key <<'K'\n{key}K\ncat > logins.py <<'P'\n{TIMER}\nP\n"
        f"python3 logins.py <<'O'\n{json.dumps(order)}\nO\nrm -f bench_key"
    )
    run([*kubectl, "exec", LOGIN, "--", "sh", "-c", START_PLAIN], deadline_seconds=30)
    try:
        taken = json.loads(run(cluster.login.run_command([script]), deadline_seconds=600))
    finally:
        run([*kubectl, "exec", LOGIN, "--", "sh", "-c", STOP_PLAIN], deadline_seconds=30)
    jail, plain = (statistics.quantiles(taken[str(port)], n=4)[0] * 1000 for port in (JAIL, PLAIN))
    return [Measurement("ssh true ÷ plain sshd", jail / plain, 1.1, detail={"jail, ms": jail, "plain, ms": plain})]
