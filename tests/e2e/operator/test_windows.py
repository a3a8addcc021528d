"""Updates that wait for a window, under Slurm's own reservation, and `scontrol reboot`."""

from __future__ import annotations

import datetime
import json

import pytest

GRACE = "pulumi-slurm:nodeSets[0].grace"
WINDOW = "pulumi-slurm:nodeSets[0].update"
RESERVATION = "pulumi-slurm-update-cpu"
WORKERS = ("cpu-0", "cpu-1")
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
SECONDS = 240


def start(minutes: int) -> str:
    """The start of a weekly window that opens in so many minutes, or opened before as many."""
    at = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=minutes)
    return f"{DAYS[at.weekday()]} {at:%H:%M}"


def uids(slurm) -> dict[str, str]:
    return {name: slurm.get("pod", name)["metadata"]["uid"] for name in WORKERS}


def updated(slurm) -> int:
    return int(slurm.get("nodeset", "cpu")["status"]["updated"])


def reservation(slurm) -> str:
    """Return what Slurm says of the operator's reservation; empty if there is none."""
    done = slurm.sh(f"scontrol -o show reservation {RESERVATION}")
    return done.stdout.strip() if done.status == 0 and "not found" not in done.text else ""


def in_controller(slurm, line: str) -> str:
    return slurm.on_pod("slurm-controller-0", line).ok()


@pytest.fixture
def before(slurm):
    """The nodes' grace before, which is there again afterwards, at any time."""
    grace = slurm.pulumi("config", "get", "--path", GRACE)
    yield
    slurm.sh("scancel --me")
    if grace.status == 0:
        slurm.pulumi("config", "set", "--path", GRACE, grace.ok()).ok()
    else:
        slurm.pulumi("config", "rm", "--path", GRACE)
    slurm.pulumi("config", "rm", "--path", WINDOW)
    slurm.pulumi("up", "--yes", "--skip-preview").ok()
    anytime = {"spec": {"update": {"window": None}}}
    slurm.kubectl("patch", "nodeset", "cpu", "--type=merge", "-p", json.dumps(anytime)).ok()
    slurm.wait("both nodes are back", lambda: updated(slurm) == 2 and slurm.all_idle(), SECONDS)
    slurm.wait("nothing is reserved", lambda: not reservation(slurm), SECONDS)


@pytest.mark.timeout(1200)
def test_an_update_waits_for_its_window_and_goes_when_that_is_open(slurm, before):
    there = uids(slurm)
    slurm.pulumi("config", "set", "--path", f"{WINDOW}.window.start", start(minutes=30)).ok()
    slurm.pulumi("config", "set", "--path", f"{WINDOW}.window.duration", "2h").ok()
    slurm.pulumi("config", "set", "--path", GRACE, "41s").ok()
    slurm.pulumi("up", "--yes", "--skip-preview").ok()
    waits = "0 of 2 nodes have the current template; the others wait for the window"
    slurm.wait(waits, lambda: waits in slurm.get("nodeset", "cpu")["status"]["message"], SECONDS)
    shown = slurm.wait("the nodes are reserved", lambda: reservation(slurm), 60)
    for word in ("Nodes=cpu-[0-1]", "MAINT", "IGNORE_JOBS", "Users=root", "State=INACTIVE"):
        assert word in shown, shown
    slurm.sh("srun -n1 -t 5 hostname").ok()
    # A job that would run into the window waits for its end, and no node loses anything meanwhile.
    job = slurm.sh("sbatch --parsable -n1 -t 60 -o /dev/null --wrap hostname").ok()
    reason = f"squeue -h -j {job} -o '%T %r'"
    slurm.wait("a long job waits", lambda: slurm.sh(reason).ok() not in ("PENDING None", "PENDING Priority"), SECONDS)
    assert slurm.sh(reason).ok().startswith("PENDING "), slurm.sh(reason).ok()
    # Backfill plans a node for the job that waits.
    slurm.wait("no node has a job", lambda: {*slurm.nodes().values()} <= {"idle", "planned"}, SECONDS)
    assert uids(slurm) == there
    slurm.sh(f"scancel {job}").ok()

    # As somebody who can't wait: it has been open for an hour.
    opened = {"start": start(minutes=-60), "durationSeconds": 7200}
    change = {"spec": {"update": {"window": opened}}}
    slurm.kubectl("patch", "nodeset", "cpu", "--type=merge", "-p", json.dumps(change)).ok()
    slurm.wait("both nodes move", lambda: updated(slurm) == 2, SECONDS)
    slurm.wait("both take jobs", slurm.all_idle, SECONDS)
    assert not {*uids(slurm).values()} & {*there.values()}
    slurm.wait("the reservation ends with the update", lambda: not reservation(slurm), 60)
    slurm.sh("srun -n1 -t 60 hostname").ok()


def test_scontrol_reboot_waits_for_the_job_and_makes_a_new_pod(slurm):
    there = uids(slurm)
    job = slurm.sh("sbatch --parsable -w cpu-1 -o /dev/null --wrap 'sleep 600'").ok()
    try:
        slurm.wait("a job runs", lambda: slurm.sh(f"squeue -h -j {job} -o %T").ok() == "RUNNING", 60)
        in_controller(slurm, "scontrol reboot ASAP cpu-1")
        slurm.wait("it gets no more jobs", lambda: slurm.nodes()["cpu-1"] not in ("idle", "allocated", "mixed"), 60)
        assert slurm.sh(f"squeue -h -j {job} -o %T").ok() == "RUNNING"
        assert uids(slurm) == there
        slurm.sh(f"scancel {job}").ok()
        slurm.wait("its pod is another one", lambda: uids(slurm)["cpu-1"] != there["cpu-1"], SECONDS)
        slurm.wait("it takes jobs again", slurm.all_idle, SECONDS)
    finally:
        slurm.sh(f"scancel {job}")
    assert uids(slurm)["cpu-0"] == there["cpu-0"]
    assert slurm.sh("srun -n1 -w cpu-1 hostname").ok() == "cpu-1"
    assert "as scontrol reboot asked" in slurm.kubectl("get", "events").ok()


def test_a_node_that_was_drained_by_hand_stays_so_over_a_reboot(slurm):
    there = uids(slurm)
    in_controller(slurm, "scontrol update nodename=cpu-1 state=drain reason=bad-fan")
    try:
        in_controller(slurm, "scontrol reboot cpu-1")
        slurm.wait("its pod is another one", lambda: uids(slurm)["cpu-1"] != there["cpu-1"], SECONDS)
        slurm.wait("its slurmd is back", lambda: slurm.nodes()["cpu-1"] == "drained", SECONDS)
        assert "bad-fan" in slurm.sh("scontrol -o show node cpu-1").ok()
    finally:
        in_controller(slurm, "scontrol update nodename=cpu-1 state=undrain")
    slurm.wait("both nodes are back", slurm.all_idle, SECONDS)
