"""A changed configuration: tried by a real slurmctld, then read by all within seconds, and never at a job's cost."""

from __future__ import annotations

import datetime
import json
import re
import time
from pathlib import Path

import pytest
import yaml

from tests.e2e import preemption

GOLDEN = Path(__file__).parents[2] / "unit" / "golden"
ASK = """
import json, sys, urllib.request
answers = {}
for name, files in json.load(sys.stdin).items():
    question = urllib.request.Request("http://127.0.0.1:6821", json.dumps({"files": files}).encode())
    answers[name] = json.load(urllib.request.urlopen(question, timeout=60))
print(json.dumps(answers))
"""
REFUSED = {
    "an unknown key": ("slurm.conf", "Nonsense=1", "unrecognized key: Nonsense"),
    "a value of the wrong type": (
        "slurm.conf",
        "MessageTimeout=abc",
        'MessageTimeout value "abc" is not a valid number',
    ),
    "a plugin that is not there": ("slurm.conf", "SchedulerType=sched/nope", "sched/nope"),
    "a partition without nodes": ("slurm.conf", "PartitionName=x Nodes=ns_none", "Invalid node names in partition x"),
    "a word on a partition's line": ("slurm.conf", "PartitionName=x Nodes=ns_cpu Wow=3", "unrecognized key: Wow"),
    "a partition twice": ("slurm.conf", "PartitionName=main Nodes=ns_cpu", "duplicate entry for partition main"),
    "cgroup.conf": ("cgroup.conf", "Nonsense=1", "unrecognized key: Nonsense"),
    "gres.conf": ("gres.conf", "NodeName=x-0 Nonsense=1", "unrecognized key: Nonsense"),
    "a key of accounting": ("slurm.conf", "AccountingStorageEnforce=nope", "AccountingStorageEnforce invalid: nope"),
    "a SPANK plugin that is not there": ("plugstack.conf", "required /x.so", "requires /x.so, which this image does"),
}


def test_the_config_dry_run_takes_what_is_rendered_and_refuses_what_slurmctld_refuses(slurm):
    stacks = {folder.name: {file.name: file.read_text() for file in folder.iterdir()} for folder in GOLDEN.iterdir()}
    asked = dict(stacks)
    for what, (file, line, _) in REFUSED.items():
        asked[what] = stacks["dev"] | {file: f"{stacks['dev'][file]}{line}\n"}
    question = ("exec", "-i", "deployment/slurm-rehearsal", "--", "python3", "-c", ASK)
    answers = json.loads(slurm.kubectl(*question, text=json.dumps(asked)).ok())
    assert {what: answer["accepted"] for what, answer in answers.items()} == {
        **dict.fromkeys(stacks, True),
        **dict.fromkeys(REFUSED, False),
    }, answers
    for what, (_, _, words) in REFUSED.items():
        assert words in answers[what]["words"], what


@pytest.fixture
def edit(slurm):
    """Changes the stack's config, or without values takes all back, and runs `pulumi up`; the end is as the start."""
    file = slurm.cluster.stack.config_file
    before = file.read_text()
    is_other = False

    def change(**values):
        nonlocal is_other
        content = yaml.safe_load(before)
        content["config"].update({f"pulumi-slurm:{key}": value for key, value in values.items()})
        file.write_text(yaml.safe_dump(content, sort_keys=False) if values else before)
        is_other = True
        done = slurm.pulumi("up", "--yes", "--skip-preview")
        is_other = bool(values) or done.status != 0
        return done

    yield change
    if is_other:
        file.write_text(before)
        slurm.pulumi("up", "--yes", "--skip-preview").ok()


def with_option(config: dict, **options: str) -> dict:
    """Return the stack's settings of Slurm with more options."""
    slurm = config.get("pulumi-slurm:slurm", {})
    return {**slurm, "options": {**slurm.get("options", {}), **options}}


def shown(slurm, key: str) -> str:
    lines = slurm.sh("scontrol show config").stdout.splitlines()
    return next((line.partition("=")[2].strip() for line in lines if line.split("=")[0].strip() == key), "")


SUBMIT = """
function slurm_job_submit(job, partitions, uid)
  if job.name == "unnamed" then
    slurm.log_user("a job needs a name of its own")
    return slurm.ERROR
  end
  return slurm.SUCCESS
end
function slurm_job_modify(job, record, partitions, uid)
  return slurm.SUCCESS
end
"""


def test_a_changed_option_is_read_by_slurmctld_and_all_nodes_and_a_removed_partition_waits_for_its_jobs(slurm, edit):
    """In the same updates a script in Lua and preemption by partition come and go.

    The dry run refuses a wrong script (tests/image).
    """
    config = yaml.safe_load(slurm.cluster.stack.config_file.read_text())["config"]
    nodes = [each["name"] for each in config["pulumi-slurm:nodeSets"]]
    more = {"MessageTimeout": "33", "PreemptType": "preempt/partition_prio", **preemption.OPTIONS}
    options = {**with_option(config, **more), "files": {"job_submit.lua": SUBMIT}}
    partitions = [{"name": "main", "nodeSets": nodes, "default": True}, {"name": "side", "nodeSets": nodes}]
    edit(slurm=options, partitions=[*partitions, *preemption.PARTITIONS]).ok()
    began = time.monotonic()
    slurm.wait("the option", lambda: shown(slurm, "MessageTimeout").startswith("33 "), 90)
    print(f"slurmctld shows the option {time.monotonic() - began:.1f} s after `pulumi up` ended")
    cached = "cat /run/slurm/conf/slurm.conf"
    slurm.wait("a node's copy", lambda: "MessageTimeout=33" in slurm.on_pod("cpu-0", cached).stdout)
    slurm.wait("nothing moves", lambda: slurm.condition("Progressing")["status"] == "False")
    slurm.wait("slurmctld has the script", lambda: shown(slurm, "JobSubmitPlugins") == "lua,jail", 90)
    answer = slurm.sh("sbatch -J unnamed -o /dev/null --wrap true")
    assert answer.status != 0
    assert "a job needs a name of its own" in answer.text
    for partition in preemption.PARTITIONS[:-1]:
        preemption.by_partition(slurm, partition["name"])

    job = slurm.sh("sbatch --parsable -p side -o /dev/null --wrap 'sleep 600'").ok()
    slurm.wait("the job runs", lambda: slurm.sh(f"squeue -h -j {job} -o %T").stdout.strip() == "RUNNING")
    edit().ok()
    held = slurm.wait(
        "it is held",
        lambda: slurm.condition("Degraded")["reason"] == "ConfigurationHeld" and slurm.condition("Degraded"),
    )
    assert f"its job {job} (" in held["message"]
    slurm.wait("the partition takes no more", lambda: "drain" in slurm.sh("sinfo -h -p side -o %a").stdout)
    assert slurm.sh("sbatch -p side --wrap true").status != 0
    assert slurm.sh(f"squeue -h -j {job} -o %T").ok() == "RUNNING"
    slurm.sh(f"scancel {job}").ok()
    slurm.wait("the partition is gone", lambda: slurm.sh("sinfo -h -o %R").ok() == "main", 90)
    slurm.wait("the script is gone", lambda: shown(slurm, "JobSubmitPlugins") == "jail", 90)


def test_a_tree_comes_in_one_pulumi_up_and_goes_in_another_under_jobs(slurm, edit):
    """Its leaf switch is a label of the Kubernetes node: nodes follow the label, and jobs run on."""
    config = yaml.safe_load(slurm.cluster.stack.config_file.read_text())["config"]
    label, machine = "example.com/tree-rack", slurm.get("pod", "cpu-1")["spec"]["nodeName"]
    place = {"name": "fabric", "unit": "racks", "labels": [label]}
    tree = {"name": "fabric", "type": "tree", "switches": {"core": ["racks"]}}
    submit = "sbatch --parsable -N2 -o /dev/null --wrap 'sleep 600'"
    runs, waits = slurm.sh(f"{submit}; {submit}").ok().split()

    def states() -> list[str]:
        shown = slurm.sh(f"squeue -h -S i -j {runs},{waits} -o %T:%r").ok().split()
        assert not [state for state in shown if "Held" in state], shown
        return [state.partition(":")[0] for state in shown]

    def switches() -> str:
        return slurm.on_pod("slurm-controller-0", "scontrol show topology").stdout

    def in_leaf(name: str) -> bool:
        """Return whether slurmctld has both nodes in a leaf switch."""
        return bool(re.search(rf"^SwitchName={name} .*Nodes=cpu-\[0-1\]", switches(), re.MULTILINE))

    try:
        slurm.wait("one waits for the other", lambda: states() == ["RUNNING", "PENDING"])
        slurm.kubectl("label", "node", machine, f"{label}=rack1").ok()
        sets = [{**each, "topology": [place]} for each in config["pulumi-slurm:nodeSets"]]
        edit(slurm={**config.get("pulumi-slurm:slurm", {}), "topologies": [tree]}, nodeSets=sets).ok()
        slurm.wait("partitions use the tree, with all nodes", lambda: in_leaf("rack1"), 120)
        slurm.wait("nothing moves", lambda: slurm.condition("Progressing")["status"] == "False")
        slurm.kubectl("label", "--overwrite", "node", machine, f"{label}=rack2").ok()
        slurm.wait("nodes follow the label", lambda: in_leaf("rack2"))
        edit().ok()
        slurm.wait("the tree is gone", lambda: "SwitchName" not in switches(), 120)
        assert states() == ["RUNNING", "PENDING"]
    finally:
        slurm.kubectl("label", "node", machine, f"{label}-")
        slurm.sh(f"scancel {runs} {waits}").ok()


def declared_at(slurm) -> datetime.datetime:
    """Return when the declared configuration was last written."""
    metadata = slurm.get("configmap", "slurm-config-wanted", "--show-managed-fields")["metadata"]
    return max(datetime.datetime.fromisoformat(each["time"]) for each in metadata["managedFields"])


def test_a_configuration_that_slurmctld_refuses_ends_pulumi_up_with_its_words_and_changes_nothing(slurm, edit):
    before = slurm.get("configmap", "slurm-config")["data"]
    config = yaml.safe_load(slurm.cluster.stack.config_file.read_text())["config"]
    options = with_option(config, SchedulerType="sched/nope")
    earlier = declared_at(slurm)
    refused = edit(slurm=options, timeouts={"available": "5m"})
    ended, declared = datetime.datetime.now(datetime.UTC), declared_at(slurm)
    assert refused.status != 0
    assert "ConfigurationRefused: " in refused.text, refused.text
    assert "sched/nope" in refused.text, refused.text
    assert "timeouts.available is over" not in refused.text, refused.text
    assert earlier < declared, "this `up` declared it"
    assert (ended - declared).total_seconds() < 60
    assert "Traceback" not in refused.text, "Pulumi ends the program, which has nothing more to say"
    assert slurm.get("configmap", "slurm-config")["data"] == before
    assert slurm.sh("srun -n1 hostname").status == 0


def test_a_preview_tells_what_an_edit_means_for_running_and_waiting_jobs(slurm):
    runs = slurm.sh("sbatch --parsable -t 600 -o /dev/null --wrap 'sleep 600'").ok()
    waits = slurm.sh("sbatch --parsable -t 600 --begin=now+1hour -o /dev/null --wrap true").ok()
    file = slurm.cluster.stack.config_file
    before = file.read_text()
    content = yaml.safe_load(before)
    nodes = [each["name"] for each in content["config"]["pulumi-slurm:nodeSets"]]
    shorter = {"name": "main", "nodeSets": nodes, "default": True, "maxTime": "5"}
    content["config"] |= {"pulumi-slurm:checks": {"jobs": True}, "pulumi-slurm:partitions": [shorter]}

    def counted() -> tuple[int, int]:
        """Jobs with that limit that the operator has counted: running and waiting ones."""
        partitions = slurm.get("slurmcluster", "dev")["status"].get("jobs", {}).get("partitions", [])
        main = next((each for each in partitions if each["name"] == "main"), {})
        found = [main.get(kind, {}).get("limits", {}).get("600", 0) for kind in ("running", "waiting")]
        return found[0], found[1]

    try:
        slurm.wait("the job runs", lambda: slurm.sh(f"squeue -h -j {runs} -o %T").stdout.strip() == "RUNNING")
        slurm.wait("the operator counts both", lambda: all(counted()), 150)
        file.write_text(yaml.safe_dump(content, sort_keys=False))
        told = " ".join(slurm.pulumi("preview").ok().split())
        file.write_text(before)
        assert re.search(r"partition main: maxTime UNLIMITED → 5; \d+ running jobs? (is|are) longer", told), told
        assert re.search(r"\d+ waiting jobs? asks? for more, and would not start \(PartitionTimeLimit\)", told), told
    finally:
        file.write_text(before)
        slurm.sh(f"scancel {runs} {waits}").ok()
