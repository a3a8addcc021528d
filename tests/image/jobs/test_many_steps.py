"""A job of 1,000 steps leaves on its node no process, zombie, descriptor, mount or namespace, by what /proc shows."""

import json
import shlex

import pytest

from tests.image.small_cluster import ALICE, SmallCluster

STEPS, AT_ONCE = 1000, 8

# Run in the node's pod, beside the jail; it does not count itself.
COUNT = """
import glob, json, os
names, spaces, descriptors, zombies = [], set(), 0, 0
for folder in glob.glob("/proc/[0-9]*"):
    if folder == f"/proc/{os.getpid()}":
        continue
    try:
        zombies += open(folder + "/stat").read().rpartition(")")[2].split()[0] == "Z"
        name = open(folder + "/comm").read().strip()
        descriptors += len(os.listdir(folder + "/fd"))
        spaces |= {os.readlink(f"{folder}/ns/{kind}") for kind in ("mnt", "pid", "ipc")}
        names.append(name)
    except OSError:
        pass
mounts = [len(open(f"/proc/{process}/mountinfo").readlines()) for process in ("1", "self")]
counts = {"processes": len(names), "descriptors": descriptors, "mounts": sum(mounts), "namespaces": len(spaces)}
counts["zombies"] = zombies
counts["kept jobs"] = len(os.listdir("/run/slurm-node/jobs"))
print(json.dumps([counts, sorted(names)]))
"""
BUSY = {"slurmstepd", "job_init", "jail_probe", "scontrol", "sh", "touch"}
"""Of a step, of a jail probe, or of what tells slurmctld: they come and go."""


def held(cluster: SmallCluster) -> dict[str, int]:
    """Return what the node holds while nothing runs on it."""
    found: list[dict[str, int]] = []

    def at_rest() -> bool:
        counted = cluster.pod(f"exec python3 -c {shlex.quote(COUNT)}")
        if counted.returncode != 0:
            return False
        counts, names = json.loads(counted.stdout)
        found.append(counts)
        return not BUSY & set(names)

    cluster.wait("nothing runs on the node", at_rest, 60)
    return found[-1]


def run_steps(cluster: SmallCluster, count: int) -> None:
    step = "srun -n1 --overlap --mem=1M true"
    script = f"seq {count} | xargs -P {AT_ONCE} -n 1 {step} && echo all"
    done = cluster.jail(
        f"sbatch --quiet --wait -o steps --wrap {shlex.quote(script)}; cat steps", user=ALICE, seconds=700
    )
    assert done.stdout == "all\n", done


@pytest.mark.timeout(900)
def test_a_thousand_steps_leave_nothing_on_the_node(cluster: SmallCluster) -> None:
    # What slurmd opens once, with its first steps, stays open.
    run_steps(cluster, AT_ONCE)
    before = held(cluster)
    run_steps(cluster, STEPS)
    after: dict[str, int] = {}

    def all_gone() -> bool:
        after.update(held(cluster))
        return all(after[kind] <= before[kind] for kind in before)

    cluster.wait(f"the node holds what it held before, {before}, not {after}", all_gone, 60)
