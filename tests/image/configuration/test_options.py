"""The lists of keys have every key of slurm.conf that the installed Slurm knows, and partitions take typed ones."""

import json
import subprocess
from pathlib import Path

from components.config import parse
from components.config.slurm_keys import cgroup_conf, node_options, partition_options, plugin_names, slurm_options
from components.config.slurm_keys.retired import RETIRED
from components.slurm.conf import slurm_conf
from tests.image.pods import CONTROLLER
from tests.image.small_cluster import ALICE, NewCluster
from tests.unit.samples import SMALL, changed

KEYS = """
import ctypes, json

class Key(ctypes.Structure):
    # s_p_options_t of Slurm's src/common/parse_config.h.
    _fields_ = [("key", ctypes.c_char_p), ("type", ctypes.c_int), *((f"more{i}", ctypes.c_void_p) for i in range(5))]

slurm = ctypes.CDLL("/opt/slurm/lib/slurm-wlm/libslurmfull.so")
found = []
for row in (Key * 1000).in_dll(slurm, "slurm_conf_options"):
    if row.key is None:
        break
    found.append(row.key.decode())
print(json.dumps(found))
"""
ROWS = """
import ctypes, json, re, sys

class Key(ctypes.Structure):
    _fields_ = [("key", ctypes.c_char_p), ("type", ctypes.c_int), *((f"more{i}", ctypes.c_void_p) for i in range(5))]

FILE = "/opt/slurm/lib/slurm-wlm/libslurmfull.so"
slurm = ctypes.CDLL(FILE)
mapped = [line.split() for line in open("/proc/self/maps") if FILE in line]
parts = [(*(int(end, 16) for end in where.split("-")), rights) for where, rights, *_ in mapped]

def word(pointer):
    inside = any(first <= pointer < last for first, last, _ in parts)
    text = ctypes.string_at(pointer) if inside else b""
    return text.decode() if re.fullmatch(rb"[A-Za-z]+", text) else ""

# The tables of partitions and nodes are static: they are found by their first key, and end at an empty row.
for first, last, rights in parts:
    if "x" not in rights:
        words = memoryview(ctypes.string_at(first, last - first)).cast("Q")
        for place, pointer in enumerate(words):
            if word(pointer) == sys.argv[1]:
                found = []
                for row in range(place, len(words), ctypes.sizeof(Key) // 8):
                    if not words[row]:
                        break
                    found.append(word(words[row]))
                if len(found) > 20:
                    print(json.dumps(found))
"""
OF_THE_PARSER = {"frontendname", "include"}
"""Words that are ours and no key of that table: the first went with Slurm 25.05, the second is the file reader's."""


def test_every_key_of_the_installed_slurm_is_ours_or_refused_or_allowed(image: Path) -> None:
    """A new Slurm with another key fails here: say in slurm_options.py or slurm_conf_keys.txt whose it is."""
    asked = subprocess.run(
        ["chroot", image, "python3", "-c", KEYS], capture_output=True, text=True, timeout=60, check=False
    )
    assert asked.returncode == 0, asked.stderr
    installed = {key.lower() for key in json.loads(asked.stdout)} - RETIRED.keys()
    said = slurm_options.ALLOWED.keys() | slurm_options.OWNED.keys() | slurm_options.REFUSED.keys()
    assert sorted(installed - said) == [], "nobody said whether slurm.options may set these"
    assert sorted(said - installed) == sorted(OF_THE_PARSER), "Slurm does not have these"


KINDS = {"clifilterplugins": "cli_filter", "jobsubmitplugins": "job_submit"}


def test_the_image_has_each_plugin_that_may_be_named(image: Path) -> None:
    named = [
        word if "/" in word else f"{KINDS[key]}/{word}"
        for key, words in plugin_names.CHOICES.items()
        for word in words
        if not word.endswith("none")
    ]
    there = {file.stem for file in (image / "opt/slurm/lib/slurm-wlm").glob("*.so")}
    assert sorted(name for name in named if name.replace("/", "_") not in there) == []


CGROUP = """
import ctypes, os, sys, tempfile

folder = tempfile.mkdtemp()
open(folder + "/slurm.conf", "w").close()
with open(folder + "/cgroup.conf", "w") as file:
    file.write(sys.argv[1])
os.environ["SLURM_CONF"] = folder + "/slurm.conf"
ctypes.CDLL("/opt/slurm/lib/slurm-wlm/libslurmfull.so").slurm_cgroup_conf_init()
print("read")
"""
"""Slurm ends the process where it cannot read the file."""
FREE_OF_CGROUP = {
    "AllowedSwapSpace": "50.5",
    "CgroupJobIdPaths": "yes",
    "ConstrainSwapSpace": "yes",
    "MemorySwappiness": "10",
    "MinRAMSpace": "64",
    "SignalChildrenProcesses": "no",
}


def cgroup_conf_said(image: Path, text: str) -> str:
    """Return what the parser of the installed Slurm says of a cgroup.conf."""
    command = ["chroot", image, "python3", "-c", CGROUP, text]
    asked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return asked.stdout + asked.stderr


def test_slurm_reads_each_free_key_of_cgroup_conf(image: Path) -> None:
    assert FREE_OF_CGROUP.keys() == set(cgroup_conf.KEYS.allowed)
    text = "".join(f"{key}={value}\n" for key, value in FREE_OF_CGROUP.items())
    assert all(not cgroup_conf.refusal(key, value) for key, value in FREE_OF_CGROUP.items())
    assert cgroup_conf_said(image, text) == "read\n"
    assert "NoSuchKey" in cgroup_conf_said(image, text + "NoSuchKey=yes\n")


def rows(image: Path, first: str) -> set[str]:
    """Keys of the parser's table that begins with this one."""
    script = 'mount -t proc proc "$0/proc" && exec chroot "$0" python3 -c "$1" "$2"'
    command = ["unshare", "--mount", "sh", "-c", script, str(image), ROWS, first]
    asked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert asked.returncode == 0, asked.stderr
    (found,) = asked.stdout.splitlines()
    return set(json.loads(found))


def test_every_key_of_a_partition_is_typed_or_ours_or_refused_or_allowed(image: Path) -> None:
    """A new Slurm with another key fails here: say in partition_options.py whose it is."""
    own = partition_options
    said = {*own.TYPED, *own.OWNED, *own.REFUSED, *own.ALLOWED} - {"PartitionName"}  # The line's own key.
    assert rows(image, "AllocNodes") == said


def test_every_key_of_a_node_is_typed_or_ours_or_refused_or_allowed(image: Path) -> None:
    """A new Slurm with another key fails here: say in node_options.py whose it is."""
    own = node_options
    said = {*own.TYPED, *own.OWNED, *own.REFUSED, *own.ALLOWED} - {"NodeName"}  # The line's own key.
    assert rows(image, "BcastAddr") == said


FULL = {
    "state": "DRAIN",
    "hidden": True,
    "maxTime": "7-0",
    "defaultTime": "1:00:00",
    "minNodes": 1,
    "maxNodes": 2,
    "priorityTier": 7,
    "priorityJobFactor": 8,
    "overSubscribe": "FORCE:3",
    "exclusive": "USER",
    "preemptMode": "REQUEUE",
    "graceTime": 90,
    "defMemPerCpu": "256Mi",
    "maxMemPerNode": "512Mi",
    "resumeTimeout": 901,
    "options": {
        "AllocNodes": "slurm-login-0",
        "Alternate": "others",
        "CpuBind": "core",
        "LLN": "YES",
        "MaxCPUsPerNode": "1",
        "MaxCPUsPerSocket": "1",
        "OverTimeLimit": "5",
        "ReqResv": "YES",
        "RootOnly": "YES",
        "Topology": "plain",
        "TRESBillingWeights": "CPU=1.0,Mem=0.25G",
    },
}
TOPOLOGIES = "- topology: all\n  cluster_default: true\n  flat: true\n- topology: plain\n  flat: true\n"
OTHERS = {"name": "others", "nodeSets": ["cpu"], "defMemPerGpu": "128Mi", "maxMemPerCpu": "1Gi", "defCpuPerGpu": 3}
PER_NODE = {"name": "whole", "nodeSets": ["cpu"], "defMemPerNode": "256Mi", "exclusive": "NODE", "default": True}
IN_ACCOUNTING = {"qos", "allowAccounts", "denyAccounts", "allowQos", "denyQos"}
"""A slurmctld without accounting has none of them: tests/unit shows their lines."""
SHOWN = {
    "full": (
        *("State=DRAIN", "Hidden=YES", "MaxTime=7-00:00:00", "DefaultTime=01:00:00", "MinNodes=1", "MaxNodes=2"),
        *("PriorityTier=7", "PriorityJobFactor=8", "OverSubscribe=FORCE:3", "Exclusive=USER", "PreemptMode=REQUEUE"),
        *("GraceTime=90", "DefMemPerCPU=256", "MaxMemPerNode=512", "AllocNodes=slurm-login-0"),
        *("Alternate=others", "LLN=YES", "MaxCPUsPerNode=1", "MaxCPUsPerSocket=1", "OverTimeLimit=5", "ReqResv=YES"),
        *("RootOnly=YES", "Topology=plain", "TRESBillingWeights=CPU=1.0,Mem=0.25G"),
    ),
    "others": ("State=UP", "MaxMemPerCPU=1024", "JobDefaults=DefCpuPerGPU=3,DefMemPerGPU=128"),
    "whole": ("DefMemPerNode=256", "Exclusive=NODE", "Default=YES"),
}
"""Pairs that scontrol shows of them; it shows ResumeTimeout only where Slurm itself saves power."""


def test_slurmctld_runs_with_every_key_of_a_partition(new_cluster: NewCluster) -> None:
    written = [{"name": "full", "nodeSets": ["cpu"], **FULL}, OTHERS, PER_NODE]
    assert {key for each in written for key in each} | IN_ACCOUNTING == set(partition_options.TYPED.values()) | {
        "options"
    }
    with new_cluster() as cluster:
        gpus = changed("nodeSets.0.gpus", {"type": "h100", "perNode": 2}, changed("accounting", {"mode": "off"}, SMALL))
        raw = changed("slurm.options", {"PreemptType": "preempt/partition_prio", "PreemptMode": "REQUEUE"}, gpus)
        raw = changed("slurm.files", {"topology.yaml": TOPOLOGIES}, raw)
        lines = slurm_conf.slurm_conf(parse(changed("partitions", written, raw))).splitlines()
        more = [line for line in lines if line.startswith(("PartitionName=", "Preempt"))]
        cluster.append("topology.yaml", TOPOLOGIES)
        cluster.append("slurm.conf", "\n".join(more) + "\n")
        cluster.restart_controller()
        for name, expected in SHOWN.items():
            shown = cluster.pod(f"scontrol -a show partition {name}", name=CONTROLLER).stdout.split()
            assert [pair for pair in expected if pair not in shown] == [], shown
        # 65,536 times MaxMemPerCPU: slurmctld counts the CPUs of each task in 16 bits (native/limits/zero_cpus.c).
        endless = cluster.jail("sbatch -p others --mem-per-cpu=64T --wrap true", user=ALICE)
        assert "Requested node configuration is not available" in endless.stderr
        assert "is UP" in cluster.pod("scontrol ping", name=CONTROLLER).stdout
