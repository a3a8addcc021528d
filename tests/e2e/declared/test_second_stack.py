"""A second stack on the same Kubernetes: bad images fail in words, destroy is clean, the first one never notices.

Its accounting is on a database server that is not ours.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import datetime
import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from devcluster.machine.bootstrap import CHECKOUT
from devcluster.machine.progress import StepFailed
from devcluster.node.instance import enter_command
from devcluster.node.plan.facts import CONTAINERD_SOCKET
from tests.e2e.declared import external_database, submount_sources
from tests.e2e.declared.second_cluster import (
    asked,
    cancel,
    in_second,
    is_running,
    live_keys,
    node_set,
    pods_left,
    recorded,
    running,
    waits_for,
)
from tests.e2e.declared.second_stack import NAMESPACE, SSH_PORT, SecondStack, accounting

SMALL = {"cpu": 1, "cpuRequest": "100m", "memory": "512Mi", "reservedMemory": "256Mi"}


@contextlib.contextmanager
def while_pulumi_works(work: Callable[[], object], let_it_end: Callable[[], object]) -> Iterator[None]:
    """Run a command such as `pulumi up` meanwhile. The end calls `let_it_end`, and the command must succeed."""
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        working = thread.submit(work)
        try:
            yield
        finally:
            let_it_end()
        working.result(300)


@pytest.fixture(scope="module")
def second(slurm) -> Iterator[SecondStack]:
    made = SecondStack.beside(slurm)
    made.facts["jail"]["storage"]["retain"] = True
    external_database.start(slurm)
    submount_sources.declare(slurm, made.facts)
    yield made
    try:
        made.destroy()
    finally:
        external_database.stop(slurm)


NO_IMAGE, SHELL_LESS = "localhost/jail:0000000000000000", "localhost/shell-less:0123456789abcdef"


@dataclasses.dataclass(frozen=True)
class Refused:
    """The words of a `pulumi up` that failed, and its seconds since it had made its populate Jobs."""

    words: str
    seconds: float


@pytest.fixture(scope="module")
def with_bad_images(second, slurm) -> Refused:
    """Have `pulumi up` try two jail images: one is not there, and a node set's own has no shell."""
    dns = json.loads(slurm.kubectl("get", "deployment", "coredns", "-n", "kube-system", "-o", "json").ok())
    tag = ["ctr", "--address", CONTAINERD_SOCKET, "-n", "k8s.io", "images", "tag", "--force"]
    tag += [dns["spec"]["template"]["spec"]["containers"][0]["image"], SHELL_LESS]
    subprocess.run(enter_command(slurm.cluster.instance, tag), check=True, timeout=30)
    jail, tiny = {**second.facts["jail"], "image": NO_IMAGE}, {**second.facts["nodeSets"][0], "jailImage": SHELL_LESS}
    with pytest.raises(StepFailed) as failed:
        second.up(jail=jail, nodeSets=[tiny])
    ended = datetime.datetime.now(datetime.UTC)
    jobs = json.loads(slurm.kubectl("get", "jobs", "-n", NAMESPACE, "-o", "json").ok())["items"]
    begun = max(datetime.datetime.fromisoformat(each["metadata"]["creationTimestamp"]) for each in jobs)
    return Refused(" ".join(str(failed.value).split()), (ended - begun).total_seconds())


def test_a_jail_image_that_cannot_be_pulled_is_named(with_bad_images):
    told = rf"pod slurm-jail-\S+, container image: (ErrImagePull|ImagePullBackOff): .{{,200}}{NO_IMAGE}"
    assert re.search(told, with_bad_images.words), with_bad_images.words


def test_a_jail_image_without_a_shell_fails_with_a_sentence(with_bad_images):
    assert "has no /bin/sh" in with_bad_images.words


def test_jail_images_that_never_work_end_up_within_a_minute_of_their_jobs(with_bad_images):
    assert with_bad_images.seconds < 60, "half of it is FAULT_SECONDS of components/wait_provider.py"


def test_the_second_stack_runs_jobs_beside_the_first(second, slurm):
    second.up()

    def idle() -> dict[str, int]:
        nodes = json.loads(slurm.kubectl("get", "nodesets", "-n", NAMESPACE, "-o", "json").ok())["items"]
        return {item["metadata"]["name"]: item["status"]["idle"] for item in nodes}

    slurm.wait("its node set says that its node is idle", lambda: idle() == {"tiny": 1}, 60)
    assert in_second(slurm, "srun", "-n1", "hostname") == "tiny-0"
    assert len(slurm.sh("srun -N2 hostname").ok().split()) == 2


def test_jobs_are_recorded_in_a_database_that_is_not_ours(second, slurm):
    def is_recorded() -> bool:
        in_second(slurm, "srun", "-n1", "--job-name=recorded", "true")
        return "COMPLETED" in recorded(slurm, "--name=recorded")

    slurm.wait("a job is recorded", is_recorded, 180)


def test_submounts_of_every_kind_show_in_jobs_and_logins(second, slurm):
    def session(script: str) -> subprocess.CompletedProcess[str]:
        return submount_sources.session(slurm, SSH_PORT, script)

    slurm.wait("a login", lambda: session("true").returncode == 0, 60)
    seen = session(submount_sources.LOGIN_AND_JOB)
    common = ["from a login node", "from the Kubernetes node", "1777", "1777"]
    own = [["slurm-login-0"], ["tiny-0"], ["slurm-login-0", "slurm-login-0"]]
    assert seen.stdout.splitlines() == [common[0], *common, *own[0], *common, *own[1], *own[2]], seen.stderr
    refused = session(submount_sources.ATTEMPTS)
    assert "was allowed" not in refused.stdout, refused.stdout
    for reason in submount_sources.REFUSED.values():
        assert reason in refused.stderr, refused.stderr


@dataclasses.dataclass(frozen=True)
class Adopted:
    """Facts from before a stack that had lost its state adopted the cluster.

    Args:
        keys: of live_keys.
        job: that has run all the time.
    """

    keys: dict[str, dict[str, str]]
    job: str


@pytest.fixture(scope="module")
def adopted(second, slurm) -> Adopted:
    """The second stack has lost its state and adopted the cluster. The same update changed the database."""
    before = Adopted(live_keys(slurm), in_second(slurm, "sbatch", "--parsable", "--wrap=sleep 600"))
    with second.state_lost():
        with pytest.raises(StepFailed) as refused:
            second.up()
        (consent,) = set(re.findall(r"'pulumi-slurm:cluster\.adopt' (\S+)", " ".join(str(refused.value).split())))
        other = accounting(external_database.DATABASES[1])
        second.up(cluster={**second.facts["cluster"], "adopt": consent}, accounting=other)
    second.facts["accounting"] = other
    return before


def test_an_empty_database_takes_over_while_jobs_run(adopted, slurm):
    def taken_over() -> bool:
        known = in_second(slurm, "sacctmgr", "-nP", "show", "cluster", "format=cluster,controlport")
        return known == "second|6817"

    slurm.wait("slurmctld is known to the other database", taken_over, 180)
    assert recorded(slurm, "--name=recorded") == [], "the other database was not empty"
    assert in_second(slurm, "squeue", "-h", "-j", adopted.job, "-o", "%T") == "RUNNING"
    in_second(slurm, "scancel", adopted.job)
    slurm.wait(
        "the job that ran meanwhile is recorded",
        lambda: recorded(slurm, f"--jobs={adopted.job}") == ["CANCELLED+"],
        120,
    )


def test_a_stack_that_lost_its_state_adopts_the_cluster_whose_slurmctld_starts_with_the_live_keys(adopted, slurm):
    assert live_keys(slurm) == adopted.keys
    slurm.kubectl("delete", "pod", "slurm-controller-0", "-n", NAMESPACE, seconds=120).ok()
    # Its key is the one that the node and the login node have had all the time.
    slurm.wait("a job runs", lambda: in_second(slurm, "srun", "-n1", "hostname") == "tiny-0", 120)


def test_what_is_retained_survives_destroy_and_is_found_again(second, slurm):
    login = ("exec", "-n", NAMESPACE, "slurm-login-0", "--", "sh", "-c")
    slurm.kubectl(*login, "echo kept > /run/jail/home/kept.txt").ok()
    job = running(slurm)
    with while_pulumi_works(second.destroy, lambda: cancel(slurm, job)):
        slurm.wait("the end of the cluster waits for its job", lambda: waits_for(slurm, "tiny", job), 180)
        slurm.wait("the job runs on", lambda: is_running(slurm, job), 120)
    assert pods_left(slurm) == []
    assert slurm.kubectl("get", "pvc", "slurm-jail", "-n", NAMESPACE, "-o", "jsonpath={.status.phase}").ok() == "Bound"
    small = {**second.facts["nodeSets"][0], "name": "small", "resources": SMALL}
    both = [{"name": "main", "nodeSets": ["tiny", "small"], "default": True}]
    second.up(nodeSets=[*second.facts["nodeSets"], small], partitions=both)
    assert slurm.kubectl(*login, "cat /run/jail/home/kept.txt").ok() == "kept"


def test_a_node_set_that_is_removed_waits_for_its_job_and_names_it(second, slurm):
    second.facts["jail"]["storage"]["retain"] = False  # The last test wants nothing to be left.
    nodes_of_main = ("sinfo", "-h", "-p", "main", "-o", "%N")
    job = running(slurm, "-w", "small-0")
    with while_pulumi_works(second.up, lambda: cancel(slurm, job)):
        slurm.wait("the end of the node set waits for its job", lambda: waits_for(slurm, "small", job), 240)
        slurm.wait("its partition is without it", lambda: asked(slurm, *nodes_of_main) == "tiny-0", 120)
        slurm.wait("the job runs on in it", lambda: is_running(slurm, job), 120)
    assert node_set(slurm, "small") == {}
    slurm.wait(
        "Slurm has the other node alone", lambda: asked(slurm, "scontrol", "show", "nodes").count("NodeName=") == 1
    )


NOT_TO_BE_HAD = "localhost/operator:0000000000000000"


def test_an_operator_image_that_cannot_be_pulled_ends_up_with_kubernetes_words(second):
    """It leaves the operator so; the next test wants it broken."""
    began = time.monotonic()
    with pytest.raises(StepFailed) as failed:
        second.up(images={**second.facts["images"], "operator": NOT_TO_BE_HAD})
    taken = time.monotonic() - began
    words = " ".join(str(failed.value).split())
    told = rf"pod slurm-operator-\S+, container operator: (ErrImagePull|ImagePullBackOff): .{{,200}}{NOT_TO_BE_HAD}"
    assert re.search(told, words), words
    assert taken < 80, "half of it is FAULT_SECONDS of components/wait_provider.py"


def break_operator(slurm) -> None:
    """An operator whose image cannot be had; it is ended first, since it would heal its own Deployment."""

    def operators() -> str:
        return slurm.kubectl(
            "get", "pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/component=operator", "-o", "name"
        ).ok()

    slurm.kubectl("scale", "deployment/slurm-operator", "-n", NAMESPACE, "--replicas=0").ok()
    slurm.wait("the operator ends", lambda: not operators(), 120)
    image = {"name": "operator", "image": NOT_TO_BE_HAD}
    change = {"spec": {"replicas": 1, "template": {"spec": {"containers": [image]}}}}
    slurm.kubectl("patch", "deployment", "slurm-operator", "-n", NAMESPACE, "-p", json.dumps(change)).ok()


def documented_way_out(slurm) -> None:
    """Return what docs/operator.md says to run when the operator is gone."""
    page = (CHECKOUT / "docs" / "operator.md").read_text()
    script = page.partition("**The operator is gone**")[2].partition("```sh\n")[2].partition("```")[0]
    script = script.replace("-n slurm ", f"-n {NAMESPACE} ").replace("statefulset cpu ", "statefulset tiny ")
    script = script.replace("nodeset cpu ", "nodeset tiny ")
    path = f"{slurm.cluster.binaries}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(slurm.cluster.kubeconfig)}
    subprocess.run(["sh", "-c", script], env=environment, timeout=120, check=False)


def test_destroying_the_second_leaves_nothing_of_it_and_the_first_alone(second, slurm):
    """Its operator is broken: the documented commands do what it cannot."""
    break_operator(slurm)
    with while_pulumi_works(second.destroy, lambda: documented_way_out(slurm)):
        leaving = "deletionTimestamp"
        slurm.wait("the node set is being deleted", lambda: leaving in node_set(slurm, "tiny").get("metadata", {}), 180)
    left = slurm.kubectl("get", "namespace", NAMESPACE, "--ignore-not-found", "-o", "name").ok()
    assert left == ""

    def volumes() -> list[str]:
        found = json.loads(slurm.kubectl("get", "persistentvolumes", "-o", "json").ok())["items"]
        return [v["metadata"]["name"] for v in found if v["spec"].get("claimRef", {}).get("namespace") == NAMESPACE]

    slurm.wait("no volume of it is left", lambda: not volumes(), 120)
    assert len(slurm.sh("srun -N2 hostname").ok().split()) == 2
    slurm.pulumi("preview", "--expect-no-changes").ok()
