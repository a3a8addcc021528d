"""Measures the jail's cost for a login: `ssh true` ÷ the same to an sshd without the PAM module, alternately."""

from __future__ import annotations

import json
import random

from bench.measurement import Measurement, median_milliseconds, run
from devcluster.cli.up import Cluster

REPETITIONS = 100
LOGIN = "slurm-login-0"
JAIL, PLAIN = 22, 2222

# Only for this measurement. A login without the jail begins in "/", since the pod's root has no homes.
START_PLAIN = f"""
set -e
grep -v pam_jail /etc/pam.d/sshd > /etc/pam.d/sshd-plain
sed 's/^Port .*/Port {PLAIN}\\nPAMServiceName sshd-plain/; s,^PidFile .*,PidFile /run/sshd-plain.pid,' \
    /etc/ssh/sshd_config > /run/sshd-plain.conf
/usr/sbin/sshd -f /run/sshd-plain.conf
"""
STOP_PLAIN = "kill $(cat /run/sshd-plain.pid); rm -f /etc/pam.d/sshd-plain /run/sshd-plain.conf"

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
    """Median of 100 logins each way."""
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
    jail, plain = (median_milliseconds(taken[str(port)]) for port in (JAIL, PLAIN))
    return [Measurement("ssh true ÷ plain sshd", jail / plain, 1.1, detail={"jail, ms": jail, "plain, ms": plain})]
