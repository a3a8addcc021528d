"""Promises of healing on the whole cluster: what Pulumi declared comes back, under running jobs, and fights nobody."""

from __future__ import annotations

import copy
import json

import pytest


@pytest.fixture
def job(slurm):
    """A running batch job on every node, which has to end well whatever is done to the objects around it."""
    slurm.sh("rm -f ~/drift.end").ok()
    submitted = slurm.sh(
        "sbatch --parsable -N2 -o ~/drift.out --wrap 'while [ ! -e ~/drift.end ]; do sleep 1; done; echo well'"
    )
    number = submitted.ok()
    slurm.wait("the job runs", lambda: slurm.sh(f"squeue -h -j {number} -o %T").stdout.strip() == "RUNNING")
    yield number
    slurm.sh("touch ~/drift.end").ok()
    slurm.wait("the job ends", lambda: slurm.sh(f"squeue -h -j {number}").stdout.strip() == "")
    assert slurm.sh("cat ~/drift.out; rm -f ~/drift.out ~/drift.end").ok() == "well"


def said(live: dict) -> dict:
    """Return what an object says, apart from what the API server notes in it."""
    found = copy.deepcopy(live)
    found.pop("status", None)
    for key in ("resourceVersion", "managedFields", "generation", "uid", "creationTimestamp"):
        found["metadata"].pop(key, None)
    found["metadata"].get("annotations", {}).pop("deployment.kubernetes.io/revision", None)
    for key in ("clusterIP", "clusterIPs"):
        found.get("spec", {}).pop(key, None)
    return found


def healed(slurm, kind: str, name: str, before: dict) -> None:
    def same() -> bool:
        found = slurm.kubectl("get", kind, name, "-o", "json")
        return found.status == 0 and said(json.loads(found.stdout)) == said(before)

    slurm.wait(f"{kind} {name} is as declared", same, 60)


EDITS = [
    ("configmap", "slurm-config-wanted", {"data": {"slurm.conf": "ClusterName=mine\n", "more.conf": "x"}}),
    ("secret", "slurm-keys", {"data": {"jwt.key": "b3RoZXI="}}),
    ("service", "slurm-rest", {"spec": {"selector": {"app.kubernetes.io/component": "nobody"}}}),
    ("networkpolicy", "slurm-controller", {"spec": {"ingress": [{}]}}),
    ("persistentvolumeclaim", "slurm-jail", {"metadata": {"labels": {"app.kubernetes.io/instance": "x"}}}),
    ("role", "slurm-operator", {"metadata": {"labels": {"app.kubernetes.io/instance": "x"}}}),
    ("rolebinding", "slurm-operator", {"metadata": {"labels": {"mine": "x"}}}),
    ("statefulset", "cpu", {"spec": {"template": {"spec": {"nodeSelector": {"no": "where"}}}}}),
    ("deployment", "slurm-rest", {"spec": {"template": {"spec": {"priorityClassName": "system-node-critical"}}}}),
]


def test_edits_of_every_kind_are_undone_under_a_running_job(slurm, job):
    for kind, name, change in EDITS:
        before = slurm.get(kind, name)
        slurm.kubectl("patch", kind, name, "--type=merge", "-p", json.dumps(change)).ok()
        healed(slurm, kind, name, before)
    events = slurm.kubectl("get", "events", "-o", 'jsonpath={range .items[?(@.reason=="Heal")]}{.message}{"\\n"}{end}')
    assert "restored ConfigMap slurm-config-wanted: data.slurm.conf (by kubectl-patch)" in events.ok()
    for value in slurm.get("secret", "slurm-keys")["data"].values():
        assert value[:40] not in events.stdout
    assert slurm.get("configmap", "slurm-config")["data"] == slurm.get("configmap", "slurm-config-wanted")["data"]


DELETIONS = [
    ("configmap", "slurm-config-wanted"),
    ("secret", "slurm-keys"),
    ("service", "slurm-controller"),
    ("networkpolicy", "slurm-controller"),
    ("deployment", "slurm-rest"),
    ("statefulset", "slurm-controller"),
]


def test_deleted_objects_come_again_under_a_running_job(slurm, job):
    for kind, name in DELETIONS:
        before = slurm.get(kind, name)
        slurm.kubectl("delete", kind, name, "--wait=false").ok()
        healed(slurm, kind, name, before)
    slurm.wait("Slurm answers", lambda: slurm.sh("squeue -h").status == 0, 120)


def test_a_worker_set_deleted_without_its_pods_adopts_them_again(slurm, job):
    def uids() -> dict[str, str]:
        pods = slurm.get("pods", "-l", "app.kubernetes.io/component=worker")["items"]
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}

    before = uids()
    slurm.kubectl("delete", "statefulset", "cpu", "--cascade=orphan").ok()
    slurm.wait("the set is there again", lambda: slurm.kubectl("get", "statefulset", "cpu").status == 0)
    assert slurm.get("statefulset", "cpu")["spec"]["replicas"] == len(before)

    def adopted() -> bool:
        uid = slurm.get("statefulset", "cpu")["metadata"]["uid"]
        pods = slurm.get("pods", "-l", "app.kubernetes.io/component=worker")["items"]
        return all(
            owner["uid"] == uid for pod in pods for owner in pod["metadata"].get("ownerReferences", [{"uid": ""}])
        )

    slurm.wait("it has taken the pods over", adopted)
    assert uids() == before


def up(slurm) -> None:
    slurm.pulumi("up", "--yes", "--skip-preview").ok()


NOTE = "tests.example/note"
SETTING = "pulumi-slurm:login.service.annotations"


def note(slurm) -> str | None:
    """Return the annotation of the login nodes' Service that the program declares for a while."""
    annotations = slurm.get("service", "slurm-login")["metadata"].get("annotations", {})
    return annotations.get(NOTE)


def healing(slurm) -> tuple[str, str]:
    found = slurm.condition("Healing")
    return found["status"], found["reason"]


def policy_labels(slurm) -> dict[str, str]:
    found: dict[str, str] = slurm.get("networkpolicy", "slurm-controller")["metadata"]["labels"]
    return found


def test_a_healed_field_goes_with_the_update_that_drops_it_and_healing_pauses_while_that_is_dead(slurm):
    slurm.pulumi("config", "set", "--path", f'{SETTING}["{NOTE}"]', "declared").ok()
    try:
        up(slurm)
        slurm.kubectl("annotate", "--overwrite", "service", "slurm-login", f"{NOTE}=mine").ok()
        slurm.wait("it is healed", lambda: note(slurm) == "declared")

        slurm.pulumi("config", "rm", "--path", SETTING).ok()
        slurm.kill_up(lambda line: "slurm-ledger " in line and "updated" in line)
        slurm.wait("healing pauses", lambda: healing(slurm) == ("False", "UpdateInProgress"))
        slurm.kubectl("label", "networkpolicy", "slurm-controller", "mine=x").ok()
        # A pass later it would be gone.
        seen = slurm.get("lease", "slurm-operator")["spec"]["renewTime"]
        slurm.wait("time passes", lambda: slurm.get("lease", "slurm-operator")["spec"]["renewTime"] > seen)
        assert policy_labels(slurm)["mine"] == "x"
        up(slurm)
    except BaseException:
        slurm.pulumi("config", "rm", "--path", SETTING)
        slurm.pulumi("up", "--refresh", "--yes", "--skip-preview")
        raise
    slurm.wait("healing goes on", lambda: healing(slurm)[0] == "True")
    slurm.wait("what was edited meanwhile is healed", lambda: "mine" not in policy_labels(slurm))
    assert note(slurm) is None


def test_after_all_that_pulumi_finds_nothing_to_do(slurm):
    slurm.pulumi("preview", "--refresh", "--expect-no-changes").ok()
