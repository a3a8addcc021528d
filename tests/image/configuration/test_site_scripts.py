"""Scripts of the site in a running cluster: where each runs, and what Slurm makes of one that fails."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.image.pods import CONTROLLER, WORKER
from tests.image.small_cluster import ALICE, NewCluster, SmallCluster

RUN = "/run/slurm-node"
SPACES = "readlink /proc/self/ns/pid"
ASK = "/opt/slurm/bin/sinfo -h -o '%T %E'"


def on_node(kind: str) -> list[dict[str, str]]:
    """A script that notes its variables and user, and fails while somebody wants it to."""
    text = f"""\
#!/bin/sh
{{ id -u; env; }} > {RUN}/seen-{kind}
[ ! -e {RUN}/fail-{kind} ] || {{ echo no space; exit 3; }}
"""
    return [{"name": "scratch", "text": text}]


REFUSED = {"prologSlurmctld": "refused", "epilogSlurmctld": "unbilled"}
"""Kind → the name of jobs for which it fails."""


def on_controller(kind: str) -> list[dict[str, str]]:
    text = f"""\
#!/bin/sh
{{ id -u; env; }} > /run/slurmctld/seen-{kind}
[ "$SLURM_JOB_NAME" != {REFUSED[kind]} ] || [ "$SLURM_JOB_RESTART_COUNT" -gt 0 ] || {{ echo no licence; exit 3; }}
"""
    return [{"name": "register", "text": text}]


TASK_PROLOG = f"""\
#!/bin/sh
[ ! -e "$HOME/fail-task" ] || exit 3
echo "export SITE=$({SPACES}) $(id -u)"
"""
TASK_EPILOG = f"""\
#!/bin/sh
echo "$({SPACES}) $(id -u)" > "$HOME/task-epilog"
[ ! -e "$HOME/fail-task-epilog" ] || exit 3
"""


@pytest.fixture(scope="module")
def cluster(new_cluster: NewCluster) -> Iterator[SmallCluster]:
    scripts = {
        **{kind: on_node(kind) for kind in ("prolog", "epilog", "healthCheck")},
        **{kind: on_controller(kind) for kind in ("prologSlurmctld", "epilogSlurmctld")},
        "taskProlog": [{"name": "modules", "text": TASK_PROLOG}],
        "taskEpilog": [{"name": "modules", "text": TASK_EPILOG}],
    }
    with new_cluster(slurm={"scripts": scripts}) as started:
        yield started


@pytest.fixture
def node(cluster: SmallCluster) -> Iterator[SmallCluster]:
    """The cluster, whose node takes jobs again afterwards."""
    yield cluster
    cluster.pod(f"rm -f {RUN}/fail-*")
    # Each time: Slurm drains a node for its epilog after the node itself did.
    undrain = f"/opt/slurm/bin/scontrol update nodename=cpu-0 state=undrain; {ASK}"
    cluster.wait("the node is idle", lambda: cluster.pod(undrain).stdout.startswith("idle"), 90)


def seen(cluster: SmallCluster, kind: str, pod: str = WORKER) -> dict[str, str]:
    """Returns what a script noted: its variables, and its user as `uid`."""
    folder = RUN if pod == WORKER else "/run/slurmctld"
    uid, *rest = cluster.pod(f"cat {folder}/seen-{kind}", name=pod).stdout.splitlines()
    return {"uid": uid, **dict(line.partition("=")[::2] for line in rest)}


def test_each_runs_in_its_place_with_slurms_variables(cluster: SmallCluster) -> None:
    done = cluster.jail(f"srun -Q -n1 sh -c 'echo $SITE; {SPACES}'", user=ALICE)
    site, space = done.stdout.splitlines()
    assert site == f"{space} {ALICE}", "the task prolog runs in the job, and what it exports reaches the task"
    assert cluster.jail("cat task-epilog", user=ALICE).stdout == f"{space} {ALICE}\n"
    noted = f"test -e {RUN}/seen-epilog && test -e {RUN}/seen-healthCheck"
    cluster.wait("its epilog", lambda: cluster.pod(noted).returncode == 0, 60)
    for kind, context in (("prolog", "prolog_slurmd"), ("epilog", "epilog_slurmd")):
        found = seen(cluster, kind)
        assert (found["uid"], found["SLURM_SCRIPT_CONTEXT"], found["SLURM_JOB_UID"]) == ("0", context, str(ALICE))
        assert found["PATH"].startswith("/opt/slurm/bin:")
    assert seen(cluster, "healthCheck")["uid"] == "0"
    wrote = "test -e /run/slurmctld/seen-epilogSlurmctld"
    cluster.wait("slurmctld's epilog", lambda: cluster.pod(wrote, name=CONTROLLER).returncode == 0, 30)
    for kind, context in (("prologSlurmctld", "prolog_slurmctld"), ("epilogSlurmctld", "epilog_slurmctld")):
        found = seen(cluster, kind, CONTROLLER)
        assert (found["uid"], found["SLURM_SCRIPT_CONTEXT"]) == ("64030", context)


def test_jobs_see_the_task_scripts_alone(cluster: SmallCluster) -> None:
    there = cluster.jail("srun -Q -n1 ls /run/node/scripts", user=ALICE, seconds=150).stdout.split()
    assert there == ["taskEpilog", "taskEpilog.modules", "taskProlog", "taskProlog.modules"]
    written = cluster.jail("srun -Q -n1 touch /run/node/scripts/x", user=ALICE)
    assert "Read-only file system" in written.stderr


def test_a_failed_prolog_drains_the_node_with_its_words_and_requeues_the_job(node: SmallCluster) -> None:
    node.pod(f"touch {RUN}/fail-prolog").check_returncode()
    job = node.jail("sbatch --parsable -o out --wrap 'echo ran'", user=ALICE).stdout.strip()
    node.wait("the drain", lambda: "site prolog scratch ended with status 3: no space" in node.pod(ASK).stdout, 60)
    shown = f"/opt/slurm/bin/scontrol show job {job}"
    node.wait("it is queued again", lambda: "JobState=PENDING" in node.pod(shown).stdout, 60)
    assert "Priority=0" not in node.pod(shown).stdout, "it is held"
    node.pod(f"rm {RUN}/fail-prolog; /opt/slurm/bin/scontrol update nodename=cpu-0 state=undrain").check_returncode()
    # Slurm lets a requeued job begin after two minutes.
    node.pod(f"/opt/slurm/bin/scontrol update jobid={job} StartTime=now").check_returncode()
    node.wait("its end", lambda: node.jail("cat out", user=ALICE).stdout == "ran\n", 60)


def test_a_failed_epilog_drains_the_node_with_its_words(node: SmallCluster) -> None:
    node.pod(f"touch {RUN}/fail-epilog").check_returncode()
    # A job may wait for slurmctld's next round of scheduling, each minute, while the one before it is ended.
    assert node.jail("srun -Q -n1 echo ran", user=ALICE, seconds=150).stdout == "ran\n"
    node.wait("the drain", lambda: "site epilog scratch ended with status 3: no space" in node.pod(ASK).stdout, 60)


def test_a_failed_prolog_of_slurmctld_requeues_a_batch_job_and_ends_another(cluster: SmallCluster) -> None:
    refused = cluster.jail("timeout 50 srun -Q -J refused -n1 true", user=ALICE)
    assert refused.returncode not in (0, 124), refused
    job = cluster.jail("sbatch --parsable -J refused -o again --wrap 'echo ran'", user=ALICE).stdout.strip()
    restarts = f"/opt/slurm/bin/scontrol show job {job}"
    cluster.wait("it is queued again", lambda: re.search("Restarts=[1-9]", cluster.pod(restarts).stdout), 60)
    cluster.jail(f"scancel {job}", user=ALICE)
    assert "site prologSlurmctld register ended with status 3: no licence\n" in cluster.log(CONTROLLER)


def test_a_failed_epilog_of_slurmctld_is_in_its_pods_log_and_costs_nothing(cluster: SmallCluster) -> None:
    ran = cluster.jail("srun -Q -J unbilled -n1 echo ran", user=ALICE, seconds=150)
    assert (ran.stdout, ran.returncode) == ("ran\n", 0), ran
    sentence = "site epilogSlurmctld register ended with status 3: no licence\n"
    cluster.wait("its sentence", lambda: sentence in cluster.log(CONTROLLER), 30)
    cluster.wait("the node serves", lambda: cluster.pod(ASK).stdout.startswith("idle"), 60)


def test_a_failed_task_prolog_ends_its_task_with_a_sentence(cluster: SmallCluster) -> None:
    ended = cluster.jail("touch fail-task; srun -Q -n1 echo ran; rm fail-task", user=ALICE)
    assert ended.stdout == "this cluster's task prolog modules ended with status 3\n", ended


def test_a_failed_task_epilog_is_told_to_its_user_and_costs_nothing(cluster: SmallCluster) -> None:
    ended = cluster.jail("touch fail-task-epilog; srun -Q -n1 echo ran; echo $?; rm fail-task-epilog", user=ALICE)
    assert ended.stdout == "ran\n0\n", ended
    assert "this cluster's task epilog modules ended with status 3" in ended.stderr, ended
    assert cluster.pod(ASK).stdout.split()[0] in ("idle", "completing")


def test_a_failed_health_script_drains_its_node_until_it_passes(node: SmallCluster) -> None:
    node.pod(f"touch {RUN}/fail-healthCheck").check_returncode()
    reason = "pulumi-slurm:health site scripts: scratch ended with status 3: no space"
    node.wait("the drain", lambda: reason in node.pod(ASK).stdout, 90)
    node.pod(f"rm {RUN}/fail-healthCheck").check_returncode()
    node.wait("its end", lambda: node.pod(ASK).stdout.startswith("idle"), 90)
