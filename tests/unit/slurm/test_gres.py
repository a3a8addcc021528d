"""Generic resources of nodes: what Slurm is told of several at once, and what it would not take."""

from __future__ import annotations

from typing import Any

import pytest

from components.config import Config, ConfigurationError, parse
from components.slurm.conf import gres_conf, slurm_conf
from tests.unit.effects.declared import body, variable
from tests.unit.effects.gres_effects import FPGA, MIG
from tests.unit.samples import GPU_SET, SMALL, changed

SET = SMALL["nodeSets"][0]
COUNTED = {"name": "fpga", "perNode": 4}
NAMED = {"type": "h100", "perNode": 2, "devices": "/dev/nvidia[0-1]"}


def config_with(*gres: dict[str, Any], gpus: dict[str, Any] | None = None) -> Config:
    """The small configuration, with these resources on its nodes."""
    return parse(changed("nodeSets.0", {**SET, "gres": list(gres), **({"gpus": gpus} if gpus else {})}))


def setting(config: Config, key: str) -> str:
    """A setting of slurm.conf."""
    lines = [line for line in slurm_conf.slurm_conf(config).splitlines() if line.startswith(f"{key}=")]
    return lines[0].partition("=")[2] if lines else ""


def test_slurm_knows_and_counts_each_resource_by_name_and_type() -> None:
    config = config_with(FPGA, {"name": "bandwidth", "perNode": 9}, gpus={"type": "h100", "perNode": 4, "shards": 32})
    assert setting(config, "GresTypes") == "gpu,shard,fpga,bandwidth"
    tracked = "gres/gpu,gres/shard,gres/fpga,gres/bandwidth,gres/gpu:h100,gres/fpga:u280"
    assert setting(config, "AccountingStorageTRES") == tracked


def test_resources_that_no_file_names_change_no_line_of_gres_conf() -> None:
    """Its lines take effect at once, on nodes that still run with what they had before."""
    plain = config_with(gpus={"type": "h100", "perNode": 2})
    shared = config_with({"name": "bandwidth", "perNode": 9}, gpus={"type": "h100", "perNode": 2, "shards": 8})
    assert gres_conf.text(plain) == gres_conf.text(shared)


def test_a_job_opens_no_device_but_its_own_without_gpus_too() -> None:
    assert "ConstrainDevices=yes" in slurm_conf.cgroup_conf(config_with(FPGA))
    assert "ConstrainDevices" not in slurm_conf.cgroup_conf(config_with(COUNTED))


def test_a_worker_knows_which_resources_have_files_and_how_many_gpus_are_whole() -> None:
    node = variable(config_with(FPGA, gpus=MIG), "StatefulSet", "cpu", "SLURM_NODE")
    assert (node["gresWithFiles"], node["dividedGpus"]) == (["fpga"], 2)
    plain = variable(config_with(COUNTED, gpus=NAMED), "StatefulSet", "cpu", "SLURM_NODE")
    assert {"gresWithFiles", "dividedGpus", "otherGpus"}.isdisjoint(plain), "other nodes keep their pods"


@pytest.mark.parametrize(
    ("gpus", "others"),
    [
        ({"type": "mi300", "resource": "amd.com/gpu", "devices": "/dev/dri/renderD128"}, True),
        ({"type": "h100", "resource": "example.com/gpu", "devices": "/dev/nvidia0"}, None),
        ({"type": "h100"}, None),
    ],
)
def test_a_worker_knows_gpus_that_nvidias_library_does_not(gpus: dict[str, Any], others: bool | None) -> None:
    node = variable(config_with(gpus={"perNode": 1, **gpus}), "StatefulSet", "cpu", "SLURM_NODE")
    assert node.get("otherGpus") is others


def test_a_pod_asks_kubernetes_for_all_its_devices() -> None:
    config = config_with(FPGA, gpus={**MIG, "more": [{**NAMED, "type": "a30", "devices": "/dev/nvidia[2-3]"}]})
    spec = body(config, "StatefulSet", "cpu")["spec"]["template"]["spec"]
    limits = spec["containers"][0]["resources"]["limits"]
    devices = {name: count for name, count in limits.items() if "/" in name}
    assert devices == {"nvidia.com/mig-1g.10gb": "3", "nvidia.com/gpu": "2", "x.com/fpga": "2"}


def test_a_resource_of_two_types_is_right() -> None:
    other = {**FPGA, "type": "u55c", "devices": "/dev/fpga[2-3]"}
    assert config_with(FPGA, other).node_sets[0].node_gres == "fpga:u280:2,fpga:u55c:2"


BAD: list[tuple[dict[str, Any], list[str]]] = [
    ({"gres": [{"name": "gpu", "perNode": 1}]}, ["gres[0].name: got 'gpu'; want a name such as fpga: lower-case"]),
    ({"gres": [{"name": "shard", "perNode": 1}]}, ["gres[0].name: got 'shard'; want a name such as fpga"]),
    ({"gres": [{"name": "FPGA", "perNode": 1}]}, ["gres[0].name: got 'FPGA'; want a name such as fpga"]),
    ({"gres": [{"name": "a Count=9", "perNode": 1}]}, ["gres[0].name: got 'a Count=9'; want a name such as fpga"]),
    ({"gres": [{**FPGA, "type": "u280,x"}]}, ["gres[0].type: got 'u280,x'; want a GPU type such as h100 or 1g.10gb"]),
    ({"gres": [{**FPGA, "perNode": 3}]}, ["gres[0].devices: got '/dev/fpga[0-1]'; want as many files as perNode says"]),
    ({"gres": [{**FPGA, "perNode": 0}]}, ["gres[0].perNode: got 0; want 1 or more"]),
    (
        {"gres": [{**FPGA, "devices": "/etc/fpga0"}]},
        ["gres[0].devices: got '/etc/fpga0'; want device files below /dev"],
    ),
    ({"gres": [FPGA, FPGA]}, ["gres[1].name: got 'fpga'; want each name and type once"]),
    (
        {"gres": [FPGA, COUNTED]},
        [
            "gres[1].type: got nothing; want a type for each fpga of a node, or for none",
            "gres[1].devices: got nothing; want the files of each fpga of a node, or of none",
        ],
    ),
    (
        {"gres": [{**FPGA, "devices": "/dev/nvidia[1-2]"}], "gpus": NAMED},
        ["gres[0].devices: got '/dev/nvidia[1-2]'; want files of its own: /dev/nvidia1 is one of gpus.devices"],
    ),
    ({"gpus": {**NAMED, "shards": 1}}, ["gpus.shards: got 1; want at least one for each of the node's 2 GPUs"]),
    ({"gpus": {**NAMED, "mps": 151}}, ["gpus.mps: got 151; want as many for each of the node's 2 GPUs, such as 100"]),
    ({"gpus": {**NAMED, "shards": 8, "mps": 200}}, ["gpus.mps: got 200; want nothing beside shards: a GPU of Slurm"]),
    ({"gpus": {**MIG, "mps": 300}}, ["gpus.mps: got 300; want nothing, or shards: Slurm cannot tell the share of a"]),
    (
        {"gpus": {"type": "1g.10gb", "perNode": 7, "resource": "nvidia.com/mig-1g.10gb"}},
        ["gpus.multipleFiles: got nothing; want the files of each MIG device: Slurm's AutoDetect=nvidia finds whole"],
    ),
    (
        {"gpus": {**MIG, "perNode": 7}},
        ["gpus.multipleFiles: got [", "want as many items as gpus.perNode says: 7, not 3"],
    ),
    (
        {"gpus": {**MIG, "perNode": 1, "multipleFiles": ["/dev/nvidia0"]}},
        ["gpus.multipleFiles[0]: got '/dev/nvidia0'; want two device files or more of one MIG device"],
    ),
    (
        {"gpus": {**MIG, "perNode": 2, "multipleFiles": MIG["multipleFiles"][:1] * 2}},
        ["gpus.multipleFiles[1]: got '/dev/nvidia0,", "want each of them once"],
    ),
    (
        {"gpus": {**MIG, "devices": "/dev/nvidia[0-2]"}},
        ["gpus.multipleFiles: got [", "want nothing beside devices: Slurm takes one of the two"],
    ),
    (
        {"gpus": {**NAMED, "more": [{"type": "h100", "perNode": 1, "devices": "/dev/nvidia[0-1]"}]}},
        [
            "gpus.more[0].type: got 'h100'; want each type once",
            "gpus.more[0].devices: got '/dev/nvidia[0-1]'; want as many files as gpus.perNode says: 1, not 2",
            "gpus.more[0].devices: got '/dev/nvidia[0-1]'; want files of its own: /dev/nvidia0 is one of gpus.devices",
        ],
    ),
    (
        {"gpus": {**NAMED, "more": [{"type": "l40s", "perNode": 1}]}},
        ['gpus.more[0]: got {"type": "l40s", "perNode": 1}; want devices or multipleFiles, as gpus has'],
    ),
    (
        {"gpus": {"type": "h100", "perNode": 1, "more": [{**NAMED, "type": "l40s"}]}},
        ["gpus.more[0]: got {", "want neither devices nor multipleFiles, as gpus has: Slurm finds all GPUs of a node"],
    ),
]


LAYOUT = {"resources": {"cpu": 8, "memory": "1Gi"}, "options": {"Sockets": 2, "CoresPerSocket": 4}}
BESIDE: list[tuple[dict[str, str], str]] = [
    ({"/dev/nvidia[0-1]": "0-2"}, "cores./dev/nvidia[0-1]: got '0-2'; want all cores of a socket, which has 4, or of"),
    ({"/dev/nvidia[0-1]": "4-8"}, "cores./dev/nvidia[0-1]: got '4-8'; want cores of the node: 0-7"),
    ({"/dev/nvidia[0-1]": "7-4"}, "cores./dev/nvidia[0-1]: got '7-4'; want cores such as 0-15 or 0-7,16-23"),
    ({"/dev/nvidia0": "0-3"}, "want the files of devices (/dev/nvidia[0-1]), each once and in their order"),
    ({"/dev/nvidia1": "0-3", "/dev/nvidia0": "4-7"}, "want the files of devices (/dev/nvidia[0-1]), each once and in"),
    ({"nvidia0": "0-3"}, "want device files below /dev, such as /dev/nvidia[0-7]"),
]


@pytest.mark.parametrize(("cores", "expected"), BESIDE)
def test_cores_beside_gpus_are_those_of_whole_sockets(cores: dict[str, str], expected: str) -> None:
    raw = changed("nodeSets.0", {**SET, **LAYOUT, "gpus": {**NAMED, "cores": cores}})
    with pytest.raises(ConfigurationError) as refused:
        parse(raw)
    assert expected in str(refused.value)
    good = {"/dev/nvidia0": "0-3", "/dev/nvidia1": "0-3,4-7"}
    assert parse(changed("nodeSets.0.gpus.cores", good, raw))


def test_cores_of_gpus_that_slurm_finds_are_found_with_them() -> None:
    with pytest.raises(ConfigurationError, match="want nothing, or devices beside it: Slurm finds the cores with the"):
        config_with(gpus={"type": "h100", "perNode": 1, "cores": {"/dev/nvidia0": "0"}})


@pytest.mark.parametrize(("given", "expected"), BAD, ids=[words[0][:60] for _, words in BAD])
def test_what_slurm_would_not_take_is_refused_with_its_path(given: dict[str, Any], expected: list[str]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse(changed("nodeSets.0", {**SET, **given}))
    for words in expected:
        assert words in str(refused.value)


def test_a_resource_has_files_on_all_nodes_or_on_none() -> None:
    raw = changed("nodeSets", [{**SET, "gres": [FPGA]}, {**SET, "name": "two", "gres": [COUNTED]}])
    with pytest.raises(ConfigurationError) as refused:
        parse(raw)
    words = "nodeSets[1].gres[0].devices: got nothing; want device files, as nodeSets[0].gres[0] has"
    assert words in str(refused.value)
    assert parse(changed("nodeSets.1.gres", [FPGA], raw))


def test_mig_devices_of_another_plugin_need_no_gpu_operator() -> None:
    raw = changed("nodeSets", [SET, {**GPU_SET, "gpus": MIG}], changed("gpuOperator.mode", "off"))
    assert parse(raw).node_sets[1].node_gres == "gpu:1g.10gb:3"


def test_an_operator_that_is_installed_names_mig_devices_by_their_profile() -> None:
    raw = changed("nodeSets", [SET, {**GPU_SET, "gpus": MIG}], changed("gpuOperator", {"mode": "install"}))
    with pytest.raises(ConfigurationError) as refused:
        parse(raw)
    words = "gpuOperator.migStrategy: got 'none'; want mixed, which names the resource nvidia.com/mig-1g.10gb of nodeS"
    assert words in str(refused.value)
    assert parse(changed("gpuOperator.migStrategy", "mixed", raw))
