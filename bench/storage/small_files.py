"""Measures small-file work: a git checkout and pip's installation in the jail ÷ the same outside, on one disk."""

from __future__ import annotations

import json
import random
import statistics

from bench.measurement import Measurement, run
from devcluster.cli.up import Cluster

ROUNDS = 16
FILES = 3000
WORKER = "cpu-0"
FOLDER = "/var/tmp/bench"  # noqa: S108 - on the shared root's own disk

PREPARE = f"""
set -e
rm -rf {FOLDER}; mkdir -m 1777 {FOLDER}; cd {FOLDER}; git init -q source; cd source
for i in $(seq {FILES}); do mkdir -p $((i % 60)); echo "file $i" > $((i % 60))/$i; done
git add . && git -c user.name=x -c user.email=x@y commit -qm files
cat > {FOLDER}/work.py <<'P'
import json, os, shutil, subprocess, time
os.chdir("{FOLDER}")
work = {{
    "git checkout": ["git", "clone", "-q", "--no-hardlinks", "source", "copy"],
    "pip install": ["python3", "-m", "venv", "copy"],
}}
taken = {{}}
for name, command in work.items():
    shutil.rmtree("copy", ignore_errors=True)
    os.sync()
    began = time.perf_counter()
    subprocess.run(command, check=True, timeout=300)
    taken[name] = time.perf_counter() - began
shutil.rmtree("copy")
print(json.dumps(taken))
P
"""
# The root on the volume as a plain chroot: without the jail's mounts and namespaces, with devices and /proc.
OUTSIDE = f"""
root=$(echo /mnt/jail/roots/[!.]*)
mount --rbind /dev $root/dev && mount --rbind /proc $root/proc
exec chroot --userspec=$(stat -c %u:%g $root{FOLDER}/source) $root env HOME={FOLDER} python3 {FOLDER}/work.py
"""


def measure(cluster: Cluster) -> list[Measurement]:
    """Measure the median of 16 rounds each way, in random order."""
    kubectl = [str(cluster.binaries / "kubectl"), "--kubeconfig", str(cluster.kubeconfig), "-n", "slurm"]
    job = f"srun -n1 -w {WORKER} --mem=900M"
    ways = {
        "jail": cluster.login.run_command([f"{job} env HOME={FOLDER} python3 {FOLDER}/work.py"]),
        "outside": [*kubectl, "exec", WORKER, "--", "unshare", "-m", "sh", "-ec", OUTSIDE],
    }
    run(cluster.login.run_command([PREPARE]), deadline_seconds=120)
    taken: dict[str, list[dict[str, float]]] = {"jail": [], "outside": []}
    for _ in range(ROUNDS):
        for way in random.sample(list(ways), 2):
            taken[way].append(json.loads(run(ways[way], deadline_seconds=300)))
    run(cluster.login.run_command([f"rm -rf {FOLDER}"]), deadline_seconds=60)
    return [_ratio(work, taken) for work in taken["jail"][0]]


def _ratio(work: str, taken: dict[str, list[dict[str, float]]]) -> Measurement:
    seconds = {way: statistics.median(times[work] for times in rounds) for way, rounds in taken.items()}
    detail = {f"{way}, s": value for way, value in seconds.items()}
    return Measurement(f"{work} in the jail ÷ outside", seconds["jail"] / seconds["outside"], 1.05, detail=detail)
