"""The config dry run with the image's real slurmctld: what it takes, and its words for what it refuses."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from components.config import parse
from components.config.slurm_keys.select_parameters import MORE
from components.slurm.conf import slurm_conf
from tests.image.configuration import slurm_files
from tests.unit.effects.gres_effects import FPGA, MIG
from tests.unit.samples import GPU_SET, SMALL, changed
from tests.unit.slurm import topology_samples

ROOM = """
set -e
ip link set lo up
# slurmctld's own address: one of this host alone is none to glibc (AI_ADDRCONFIG).
ip address add 10.77.0.9/32 dev lo
mount -t proc proc "$1/proc"
for folder in run tmp dev; do mount -t tmpfs "$folder" "$1/$folder"; done
for device in null zero random urandom; do touch "$1/dev/$device"; mount --bind "/dev/$device" "$1/dev/$device"; done
install -d -o 64030 -g 64030 "$1/run/slurmctld"
chmod 1777 "$1/tmp"
exec env -i PATH=/usr/sbin:/usr/bin chroot --userspec=64030:64030 "$1" /usr/bin/python3 -B -c "$2"
"""
ASK = """
import dataclasses, json, sys
from slurm_node.roles import config_dry_run
asked = json.load(sys.stdin)
json.dump({name: dataclasses.asdict(config_dry_run.dry_run(files)) for name, files in asked.items()}, sys.stdout)
"""
SUBMIT, CLI, TREE = slurm_files.job_submit(), slurm_files.cli_filter(), slurm_files.tree("cpu-[0-3]")
JOBCOMP = "function slurm_jobcomp_log_record(job)\n  return slurm.SUCCESS\nend\n"
SYSFS = {"AcctGatherInterconnectType": "acct_gather_interconnect/sysfs"}
RPC_QUEUE = {"SlurmctldParameters": "enable_rpc_queue"}
BY_FILE = {"TopologyPlugin": "topology/tree"}

TAKEN: list[tuple[dict[str, str], dict[str, str]]] = [
    ({}, {}),
    ({"job_submit.lua": SUBMIT, "cli_filter.lua": CLI, "jobcomp.lua": JOBCOMP}, {}),
    ({"topology.yaml": TREE}, {}),
    ({"topology.conf": "SwitchName=rack1 Nodes=cpu-[0-3]\n"}, BY_FILE),
    ({"acct_gather.conf": "SysfsInterfaces=eth0\n"}, SYSFS),
    ({"mpi.conf": "PMIxDebug=1\n"}, {}),
    *(
        ({}, {"SelectTypeParameters": ",".join([consumed, *MORE])})
        for consumed in ("CR_Core_Memory", "CR_Socket_Memory")
    ),
    (
        {},
        {"SelectTypeParameters": ",".join(["CR_CPU_Memory", *(word for word in MORE if "TASK_PER_CORE" not in word)])},
    ),
]
REFUSED: list[tuple[dict[str, str], dict[str, str], str]] = [
    ({"job_submit.lua": "function slurm_job_submit(\n"}, {}, "job_submit.lua:2: <name> or '...' expected near '<eof>'"),
    ({"job_submit.lua": "return 1 +\n"}, {}, "job_submit/lua: job_submit.lua: job_submit.lua:"),
    ({"job_submit.lua": "x = nil.y\n"}, {}, "job_submit.lua"),
    ({"job_submit.lua": JOBCOMP}, {}, "job_submit.lua: missing required function slurm_job_submit"),
    ({"cli_filter.lua": CLI.replace("end", "", 1)}, {}, "cli_filter/lua: cli_filter.lua: cli_filter.lua:"),
    ({"cli_filter.lua": SUBMIT}, {}, "cli_filter.lua: missing required function slurm_cli_setup_defaults"),
    ({"jobcomp.lua": "x ="}, {}, "jobcomp.lua:1: unexpected symbol near '<eof>'"),
    ({"topology.yaml": TREE.replace("tree", "trea")}, {}, "Failed to initialize topology plugin"),
    ({"topology.yaml": "- topology: [\n"}, {}, "Failed to load topology.yaml"),
    ({"topology.conf": "SwitchNam=rack1\n"}, BY_FILE, "unrecognized key: SwitchNam"),
    ({"acct_gather.conf": "SysfsInterface=eth0\n"}, SYSFS, "unrecognized key: SysfsInterface"),
    ({"rpc_queue.yaml": "rpc_queue: [\n"}, RPC_QUEUE, "Failed to decode rpc_queue.yaml"),
]


NAMED = {"type": "mi300", "perNode": 2, "devices": "/dev/dri/renderD[128-129]"}
SETS = [
    *({**SMALL["nodeSets"][0], "name": f"cpu{number}", **kind} for number, kind in enumerate((
        {}, {"gpus": MIG}, {"gpus": {**NAMED, "shards": 8}}, {"gres": [FPGA, {"name": "bandwidth", "perNode": 9}]},
    ))),
    {**GPU_SET, "gpus": {"type": "h100", "perNode": 4, "mps": 800, "more": [{"type": "l40s", "perNode": 4}]}},
]  # fmt: skip
"""Nodes with each kind of generic resources."""


def files(given: Mapping[str, str], options: Mapping[str, str]) -> dict[str, str]:
    slurm = {"files": dict(given), "options": dict(options)}
    raw = changed("slurm", slurm, changed("nodeSets", SETS))
    return slurm_conf.files(parse(raw))


def edited(file: str, old: str, new: str) -> dict[str, str]:
    """The files of this program after a change that its own checks would not let through."""
    made = files({}, {})
    assert old in made[file]
    return {**made, file: made[file].replace(old, new)}


EDITED: list[tuple[dict[str, str], str]] = [
    (edited("gres.conf", "AutoDetect=nvidia", "AutoDetect=off Nume=gpu"), "unrecognized key: Nume"),
    (edited("gres.conf", "AutoDetect=nvidia", "Name=gpu MultipleFiles=/dev/nvidia0"), "Use File instead"),
    (
        edited("slurm.conf", "AccountingStorageType=", "AccountingStorageEnforce=bogus\nAccountingStorageType="),
        "AccountingStorageEnforce invalid: bogus",
    ),
]


@pytest.fixture(scope="module")
def said(image: Path) -> dict[str, dict[str, Any]]:
    """The verdict of each case, by its number: one pod tries all of them, as in a cluster."""
    cases = [files(*case) for case in TAKEN] + [files(*case[:2]) for case in REFUSED] + [case for case, _ in EDITED]
    cases.append(slurm_conf.files(parse(topology_samples.DECLARED)))
    done = subprocess.run(
        ["unshare", "--mount", "--net", "--pid", "--uts", "--fork", "sh", "-c", ROOM, "sh", str(image), ASK],
        input=json.dumps(dict(enumerate(cases))),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    verdicts: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return verdicts


@pytest.mark.parametrize(
    "case", range(len(TAKEN)), ids=[" ".join([*given, *options.values()]) or "none" for given, options in TAKEN]
)
def test_files_that_slurm_can_use_are_taken_without_complaint(said: dict[str, Any], case: int) -> None:
    assert said[str(case)] == {"accepted": True, "words": ""}


@pytest.mark.parametrize("case", range(len(REFUSED)), ids=[words for _, _, words in REFUSED])
def test_a_file_that_slurm_cannot_use_is_refused_in_its_words(said: dict[str, Any], case: int) -> None:
    verdict = said[str(len(TAKEN) + case)]
    assert not verdict["accepted"]
    assert REFUSED[case][2] in verdict["words"]


@pytest.mark.parametrize("case", range(len(EDITED)), ids=[words for _, words in EDITED])
def test_gres_conf_and_keys_of_accounting_are_tried(said: dict[str, Any], case: int) -> None:
    verdict = said[str(len(TAKEN) + len(REFUSED) + case)]
    assert not verdict["accepted"]
    assert EDITED[case][1] in verdict["words"]


def test_declared_topologies_are_taken_without_complaint(said: dict[str, Any]) -> None:
    assert said[str(len(TAKEN) + len(REFUSED) + len(EDITED))] == {"accepted": True, "words": ""}
