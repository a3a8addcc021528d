"""Promises to users of GPUs: a job gets the GPUs that it asked for, and no other. The GPUs are fakes that open.

The fakes are a device plugin and devices of distinct numbers (devcluster/fakes/gpus.py), found by Slurm through File=
lines. A fake NVML and fakes of programs say what is wrong with them. What only the real driver shows (AutoDetect, CUDA)
is not covered here.
"""

from __future__ import annotations

import json
import re

import pytest
import yaml

from components.config.nodes.long_checks import LongCheck
from components.control.long_checks import script
from contract import names, paths
from contract.site_scripts import Kind, file_of
from devcluster.fakes import gpu_scenario
from tests.e2e.nodes.declared_checks import declare, verdicts_of
from tests.e2e.nodes.fake_gpu_set import GPUS, NODE, OPENS, PARTITION, checked, drained_by, reason, tell

POD = {
    "labels": {"example.com/team": "vision"},
    "volumes": [{"name": "notes", "emptyDir": "1Mi"}],
    "volumeMounts": [{"name": "notes", "mountPath": "/site-notes"}],
}
WRITES = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
with open("/notes/said", "w") as notes:
    notes.write("beside slurmd")
signal.pause()
"""
"""For the first process of a container, which without a handler heeds no SIGTERM: its pod would end 90 s later."""
SIDECAR = {
    "name": "writer",
    "command": ["python3", "-c", WRITES],
    "volumeMounts": [{"name": "notes", "mountPath": "/notes", "readOnly": False}],
}
FULL = "/run/slurm-node/site-full"


def noting(file: str) -> list[dict[str, str]]:
    """A script that notes its job, and as whom it runs."""
    return [{"name": "note", "text": f'#!/bin/sh\necho "$SLURM_JOB_ID $(id -u)" > {file}\n'}]


SCRIPTS = {
    "prolog": noting("/run/slurm-node/site-prolog"),
    "epilog": noting("/run/slurm-node/site-epilog"),
    "prologSlurmctld": noting("/run/slurmctld/site-prolog"),
    "epilogSlurmctld": noting("/run/slurmctld/site-epilog"),
    "taskProlog": [{"name": "mark", "text": "#!/bin/sh\necho export SITE_MARK=set\n"}],
    "taskEpilog": [
        {"name": "mark", "text": '#!/bin/sh\n[ ! -d "$HOME/marks" ] || touch "$HOME/marks/$SLURM_JOB_ID"\n'}
    ],
    "healthCheck": [{"name": "space", "text": f"#!/bin/sh\n[ ! -e {FULL} ] || {{ echo no space; exit 1; }}\n"}],
}
SWITCHED_OFF = "gpu row remapping"
ALL = {f"/dev/fakegpu{index}" for index in range(8)}


def opened(answer) -> set[str]:
    """The devices that opened; each other one was refused by the device cgroup, and none is missing."""
    assert set(answer["seen"]) == ALL, answer
    refused = {how for how in answer["seen"].values() if how != "opens"}
    assert refused <= {"Operation not permitted"}, answer
    return {file for file, how in answer["seen"].items() if how == "opens"}


@pytest.fixture(scope="module", autouse=True)
def gpu_nodes(slurm):
    """A node set with fake GPUs, added to the config and removed again. Kubernetes is asked if it has them."""
    file = slurm.cluster.stack.config_file
    before = file.read_text()
    content = yaml.safe_load(before)
    config = content["config"]
    sidecar = {**SIDECAR, "image": config["pulumi-slurm:images"]["operator"]}
    config["pulumi-slurm:nodeSets"].append({**GPUS, "pod": {**POD, "sidecars": [sidecar]}})
    config["pulumi-slurm:slurm"] = {**config.get("pulumi-slurm:slurm", {}), "scripts": SCRIPTS}
    config["pulumi-slurm:health"]["interval"] = "30s"  # Health scripts have 10 s of it.
    config["pulumi-slurm:partitions"].append(PARTITION)
    config["pulumi-slurm:checks"] = {"cluster": True}
    health = config["pulumi-slurm:health"]
    config["pulumi-slurm:health"] = {**health, "checks": {"disabled": [*health["checks"]["disabled"], SWITCHED_OFF]}}
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    try:
        slurm.pulumi("up", "--yes", "--skip-preview").ok()
        slurm.wait("the GPU node", lambda: slurm.nodes().get(NODE) == "idle", 180)
        slurm.sh(f"cat > ~/opens.py <<'P'\n{OPENS}\nP").ok()
        yield
    finally:
        slurm.sh("scancel --partition=gpu --user=dev")
        file.write_text(before)
        slurm.pulumi("up", "--yes", "--skip-preview").ok()
    slurm.wait("no orphaned record of the GPU node", lambda: NODE not in slurm.nodes(), 60)


def test_without_a_constraint_all_devices_of_the_pod_open(slurm):
    """The device plugin's own answer: the pod, outside of jobs, opens each, as root and as an ordinary user."""
    as_root = slurm.on_pod(NODE, f'python3 -c "{OPENS}"').ok()
    assert opened(json.loads(as_root)) == ALL
    numbers = slurm.on_pod(NODE, "stat -c '%F %t:%T' /dev/fakegpu*").ok().splitlines()
    assert len(set(numbers)) == len(ALL), numbers


def test_slurm_counts_the_gpus(slurm):
    shown = slurm.sh(f"scontrol show node {NODE}").ok()
    assert "Gres=gpu:fake:8" in shown, shown
    assert "State=IDLE" in shown, shown


def test_the_sites_own_parts_of_its_pod_are_there(slurm):
    pod = slurm.get("pod", NODE)
    assert pod["metadata"]["labels"]["example.com/team"] == "vision"
    assert slurm.on_pod(NODE, "cat /site-notes/said").ok() == "beside slurmd"
    assert slurm.on_pod(NODE, "touch /site-notes/mine").status != 0, "it is read-only for Slurm's container"
    assert slurm.kubectl("exec", NODE, "-c", SIDECAR["name"], "--", "id", "-u").ok() == "65534"
    assert slurm.sh("srun -Q -p gpu ls /site-notes").status != 0, "a job does not see it"


def test_the_sites_scripts_run_before_and_after_a_job_on_its_node_and_beside_slurmctld(slurm):
    arrived = f"test -e {paths.ETC_SCRIPTS}/{file_of(Kind.EPILOG_SLURMCTLD, 'note')}"
    slurm.wait("scripts in slurmctld's pod", lambda: slurm.on_pod("slurm-controller-0", arrived).status == 0)
    ran = slurm.sh("mkdir ~/marks; srun -Q -p gpu sh -c 'echo $SITE_MARK $SLURM_JOB_ID'; ls ~/marks; rm -r ~/marks")
    mark, job, after = ran.ok().split()
    assert (mark, after) == ("set", job), "the task prolog's variable, and what the task epilog left"
    places = {(NODE, "slurm-node"): 0, ("slurm-controller-0", "slurmctld"): names.SLURM_UID}
    wanted = [f"{job} {user}" for user in places.values() for _ in range(2)]

    def noted() -> list[str]:
        cats = [(pod, f"cat /run/{folder}/site-prolog /run/{folder}/site-epilog") for pod, folder in places]
        return [line for pod, cat in cats for line in slurm.on_pod(pod, cat).stdout.splitlines()]

    slurm.wait(f"notes {wanted}", lambda: noted() == wanted)


def test_a_health_script_of_the_site_drains_its_node_until_it_passes(slurm):
    slurm.on_pod(NODE, f"touch {FULL}; /usr/sbin/node-health-program").ok()
    try:
        told = slurm.wait("a drain", lambda: (said := reason(slurm)) != "none" and said)
    finally:
        slurm.on_pod(NODE, f"rm {FULL}; /usr/sbin/node-health-program").ok()
    assert told == "pulumi-slurm:health site scripts: space ended with status 1: no space"
    slurm.wait("the drain is lifted", lambda: reason(slurm) == "none")


def test_a_job_opens_exactly_the_gpus_that_it_asked_for(slurm):
    answer = json.loads(slurm.sh("srun -p gpu --gres=gpu:2 python3 opens.py").ok())
    assert len(opened(answer)) == 2
    # Slurm numbers what a job can open, from 0 on.
    assert answer["visible"] == "0,1"
    assert opened(answer) == {f"/dev/fakegpu{index}" for index in answer["gpus"].split(",")}


def test_a_job_asks_by_type(slurm):
    assert len(opened(json.loads(slurm.sh("srun -p gpu --gpus=fake:3 python3 opens.py").ok()))) == 3
    assert slurm.sh("srun -p gpu --gpus=h100:1 true").status != 0


def test_a_job_without_gpus_opens_none(slurm):
    assert opened(json.loads(slurm.sh("srun -p gpu python3 opens.py").ok())) == set()


def test_root_in_a_job_opens_no_other(slurm):
    answer = json.loads(slurm.sh("srun -p gpu --gres=gpu:1 sudo python3 /home/dev/opens.py").ok())
    assert len(opened(answer)) == 1


HELD = 'held=$(stat -L -c %t:%T /proc/$$/fd/0 /proc/$$/fd/1 /proc/$$/fd/2); echo "$held" > ~/held/$SLURM_JOB_ID'
"""For a batch job: the numbers of its own files, if they are devices. dash redirects its own output for a program."""
OPENING = ("-i {} -o /dev/null", "-o {} -e /dev/null", "-o /dev/null -e {}")


def test_slurmstepd_opens_no_gpu_for_a_job(slurm):
    """slurmstepd is in another device group than its tasks, and they inherit what it opens."""
    paths = [*sorted(ALL)[::3], "/dev/zero"]
    lines = [
        f"sbatch --quiet -p gpu {gres} {option.format(path)} --wrap '{HELD}'"
        for gres in ("", "--gres=gpu:1")
        for option in OPENING
        for path in paths
    ]
    slurm.sh("\n".join(["rm -rf ~/held; mkdir ~/held", *lines])).ok()
    slurm.wait("the jobs' end", lambda: not slurm.sh("squeue -h -p gpu -u dev").ok(), 180)
    held = slurm.sh("cat ~/held/*").ok().splitlines()
    assert held.count("1:5") == 2 * len(OPENING), "jobs ran whose file is /dev/zero"
    assert {*held} == {"1:3", "1:5"}, "no other device"


def test_two_jobs_at_once_have_disjoint_gpus(slurm):
    """Each holds its GPUs until the other has shown its own; a batch job has its constraint too."""
    meet = (
        "rm -rf ~/meet && mkdir ~/meet && "
        "for me in a b; do sbatch --quiet -p gpu --gres=gpu:2 -o ~/meet/$me.out --wrap "
        '"python3 opens.py > ~/meet/$me.part && mv ~/meet/$me.part ~/meet/$me && '
        "timeout 180 sh -c 'until test -e ~/meet/a && test -e ~/meet/b; do sleep 0.1; done'\"; done && "
        "until test -e ~/meet/a && test -e ~/meet/b; do sleep 0.1; done; cat ~/meet/a ~/meet/b"
    )
    first, second = (opened(json.loads(line)) for line in slurm.sh(meet, seconds=180).ok().splitlines())
    assert len(first) == len(second) == 2
    assert not first & second


def test_accounting_counts_the_gpus_of_a_job(slurm):
    job = slurm.sh("sbatch --parsable --wait -p gpu --gres=gpu:2 -o /dev/null --wrap true").ok()
    asked = f"sacct -X -n -P -j {job} -o AllocTRES"
    counted = slurm.wait(
        "a record with GPUs", lambda: [word for word in slurm.sh(asked).ok().split(",") if "gpu" in word]
    )
    assert sorted(counted) == ["gres/gpu:fake=2", "gres/gpu=2"]


def test_a_third_job_waits_for_its_gpus(slurm):
    held = "sbatch --parsable -p gpu --gres=gpu:8 --wrap 'sleep 300'"
    pending = (
        f"one=$({held}); two=$({held}); "
        'timeout 120 sh -c "until squeue -h -j $two -o %r | grep -q Resources; do sleep 0.2; done"; '
        "squeue -h -j $one,$two -o '%T'; scancel $one $two"
    )
    one, two = slurm.sh(pending, seconds=180).ok().split()
    # CONFIGURING: the site's prolog runs.
    assert {one, two} in ({"PENDING", "RUNNING"}, {"PENDING", "CONFIGURING"})


def test_a_job_of_a_whole_node_has_all_its_gpus(slurm):
    """Long checks are such jobs, which ask for no GPU."""
    batch = "sbatch --wait --quiet --exclusive -p gpu -o ~/whole --wrap 'python3 opens.py'; cat ~/whole"
    assert opened(json.loads(slurm.sh(batch).ok())) == ALL


@pytest.mark.parametrize(
    ("modes", "after_calls", "check", "evidence"),
    [
        ({3: "fallen_off_bus"}, None, "gpus", "7 of 8 GPUs answer"),
        ({3: "fallen_off_bus"}, 5, "gpus", "GPU 3 (GPU-fake-3): GPU is lost"),
        ({2: "ecc_uncorrectable"}, None, "gpu memory errors", "GPU 2 (GPU-fake-2)"),
        ({3: "nvlink_down"}, None, "nvlink", "GPU 3 (GPU-fake-3): NVLinks 17 are down"),
    ],
    ids=["falls off the bus", "is lost meanwhile", "memory", "NVLink"],
)
def test_a_node_with_a_bad_gpu_is_drained_until_it_is_mended(slurm, modes, after_calls, check, evidence):
    tell(slurm, modes=modes, after_calls=after_calls)
    try:
        told = slurm.wait("a drain", lambda: drained_by(slurm, check))
    finally:
        tell(slurm)
    assert evidence in told
    slurm.wait("the drain is lifted", lambda: checked(slurm) == "none")


def test_a_check_that_is_switched_off_drains_nothing(slurm):
    """Nor does it keep another one's drain. Where it is on, it fails (tests/health/fakes/scenarios.yaml)."""
    off = {1: "remap_failed"}
    tell(slurm, modes=off | {3: "nvlink_down"})
    try:
        slurm.wait("a drain by another one", lambda: drained_by(slurm, "nvlink"))
        tell(slurm, modes=off)
        slurm.wait("the drain is lifted", lambda: checked(slurm) == "none")
        skipped = json.loads(slurm.on_pod(NODE, "node-health --json").stdout)["skipped"]
    finally:
        tell(slurm)
    assert {"check": SWITCHED_OFF, "why": "switched off by health.checks.disabled"} in skipped


def test_a_gpu_whose_device_file_is_gone_drains_its_node(slurm):
    slurm.on_pod(NODE, "mv /dev/fakegpu3 /dev/lost").ok()
    try:
        slurm.on_pod(NODE, "/usr/sbin/node-health-program")
        slurm.wait("a drain", lambda: "7 of 8 GPUs answer" in reason(slurm))
    finally:
        slurm.on_pod(NODE, "mv /dev/lost /dev/fakegpu3").ok()
    slurm.on_pod(NODE, "/usr/sbin/node-health-program").ok()
    slurm.wait("it is lifted", lambda: reason(slurm) == "none")


CHECK = {
    "name": "all-reduce",
    "partition": "gpu",
    "nodeSets": ["fake-gpu"],
    "everySeconds": 86_400,
    "timeLimitMinutes": 1,
    "sharePercent": 100,
    "passes": 1,
    "drains": True,
    "least": "its GPUs' GB/s",
    "script": script(LongCheck(name="all-reduce", partition="gpu", builtin="all-reduce", timeLimit="1m")),
}


@pytest.fixture
def hanging_all_reduce(slurm):
    """The builtin, with the threshold of an H100, beside a fake of its tool in the jail that hangs."""
    program = "/usr/local/bin/all_reduce_perf"
    fake = gpu_scenario.PROGRAMS["all_reduce_perf"].read_text()
    slurm.sh(f"sudo tee {program} >/dev/null <<'END'\n{fake}END\nsudo chmod 755 {program}").ok()
    tell(slurm, tools={"all_reduce_perf": "hangs"})
    declare(slurm, [CHECK])
    try:
        yield
    finally:
        tell(slurm)
        slurm.kubectl("annotate", "slurmcluster", "dev", "check.pulumi-slurm.dev/all-reduce-")
        declare(slurm, None)
        # A check that goes before the operator has ended its retry leaves the node drained, a look later.
        slurm.wait("it is forgotten", lambda: not slurm.get("slurmcluster", "dev")["status"].get("longChecks"))
        slurm.on_pod("slurm-controller-0", f"scontrol update nodename={NODE} state=undrain")
        slurm.wait("it takes jobs", lambda: slurm.nodes().get(NODE) == "idle", 120)
        slurm.sh(f"sudo rm {program} {gpu_scenario.PATH_IN_JAIL}").ok()


def test_an_all_reduce_that_hangs_or_is_slow_drains_its_node_until_it_passes(slurm, hanging_all_reduce):
    of_check = f"squeue -h -t running -n {names.LONG_CHECK_PREFIX}all-reduce -o '%i %l'"
    runs = slurm.wait("its job runs", lambda: slurm.on_pod("slurm-controller-0", of_check).ok(), 120)
    job, limit = runs.split()
    assert limit == "1:00", "the shortest that Slurm knows"
    # The limit passes sooner. Slurm looks for that each half minute.
    slurm.on_pod("slurm-controller-0", f"scontrol update jobid={job} endtime=now+1").ok()
    slurm.wait("a drain", lambda: slurm.nodes()[NODE] == "drained", 120)
    assert reason(slurm).startswith(f"pulumi-slurm:health long all-reduce: job {job} TIMEOUT")

    def ask(how: str) -> None:
        wanted = f"check.pulumi-slurm.dev/all-reduce={NODE}@{how}"
        slurm.kubectl("annotate", "--overwrite", "slurmcluster", "dev", wanted).ok()

    tell(slurm, tools={"all_reduce_perf": "230.0"})
    ask("slow")
    slow = r"pulumi-slurm:health long all-reduce: job \d+ FAILED, exit status 60: 230 GB/s of at least 460"
    slurm.wait("a drain with the threshold", lambda: re.fullmatch(slow, reason(slurm)), 300)
    tell(slurm)
    ask("well")
    slurm.wait("it takes jobs again", lambda: slurm.nodes()[NODE] == "idle", 300)
    assert verdicts_of(slurm, "all-reduce") == {"FAIL": 2, "PASS": 1}


def test_a_preview_tells_what_the_nodes_do_not_offer(slurm):
    """The fixture's update passed the same check."""
    file = slurm.cluster.stack.config_file
    before = file.read_text()
    content = yaml.safe_load(before)
    gpus = content["config"]["pulumi-slurm:nodeSets"][-1]["gpus"]
    try:
        gpus.update(perNode=16, devices="/dev/fakegpu[0-15]", runtimeClass="nvidia")
        file.write_text(yaml.safe_dump(content, sort_keys=False))
        refused = slurm.pulumi("preview")
    finally:
        file.write_text(before)
    assert refused.status != 0
    assert (
        "gpus.perNode: got 16; want at most 8: no node that the set may use offers more nvidia.com/gpu" in refused.text
    )
    assert "gpus.runtimeClass: got 'nvidia'; want a RuntimeClass that Kubernetes has; there are: none" in refused.text


def test_a_node_without_a_driver_says_so(slurm):
    """On workers and logins alike; the links are the same in the one root, their targets are each node's."""
    load = "python3 -c \"import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))\""
    for where in (f"srun -n1 -w cpu-0 {load}", load):
        done = slurm.sh(where)
        assert done.ok() == "34"  # CUDA_ERROR_STUB_LIBRARY
        assert "no NVIDIA driver on this node" in done.stderr
    assert "no NVIDIA driver on this node" in slurm.sh("srun -n1 nvidia-smi").stderr
    slurm.sh("sudo ldconfig && test -L /usr/lib/$(uname -m)-linux-gnu/libcuda.so.1").ok()
