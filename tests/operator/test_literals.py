"""Resources and templates: the operator reads in them the values that the program declares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slurm_operator.clients.slurm import slurmrestd_answers
from slurm_operator.gres import canonical
from slurm_operator.parse.resources import parse_node_set
from slurm_operator.parse.workloads import parse_workload
from slurm_operator.state.resources import NodeCondition, NodeSet
from slurm_operator.state.slurm import Facts

from components import slurm_cluster
from components.config import parse
from components.config.nodes.node_sets import Removal, Update
from components.config.nodes.policy import Policy
from components.config.nodes.reactions import Reactions
from components.config.slurm_keys import node_options
from components.slurm import node_set
from contract import reasons
from devcluster.machine.bootstrap import CHECKOUT
from tests.unit.samples import changed

POLICIES: dict[str, type[Policy]] = {"removal": Removal, "update": Update, "reactions": Reactions}
OTHER = {"jobs": "force", "window": {"start": "Sun 03:00", "durationSeconds": 3600}}
"""Values that are no default, where a number is none at all."""
WANTED = (("KernelDeadlock", True), ("GpuReady", False))
"""Conditions of Kubernetes nodes: type, and the status that is a fault."""


def test_reasons_stay_what_earlier_releases_wrote() -> None:
    """A drain outlives the release that set it: another spelling would leave it to people."""
    assert f"{reasons.UPDATE}{reasons.DEADLINE_PASSED}" == "pulumi-slurm:update, its deadline has passed"
    assert (reasons.SCALE_IN, reasons.NEW, reasons.NODE) == (
        "pulumi-slurm:scale-in",
        "pulumi-slurm:new",
        "pulumi-slurm:node ",
    )
    assert reasons.UNFIT == ("pulumi-slurm:jail", "pulumi-slurm:health ")


def observed(**policies: Any) -> NodeSet:
    """Return the operator's reading of a NodeSet with these policies."""
    return parse_node_set({"metadata": {"name": "cpu"}, "spec": {"cluster": "c", "statefulSet": "cpu", **policies}})


def test_a_policy_that_is_left_out_is_the_programs_default() -> None:
    """An operator of today also serves resources that an older program wrote."""
    defaults = {key: model().policy for key, model in POLICIES.items()}
    assert observed(**defaults) == observed()


def test_the_operator_reads_every_key_of_a_policy() -> None:
    unread = [
        f"{section}.{field.key}"
        for section, model in POLICIES.items()
        for field in model.resource_fields()
        if observed(**{section: {field.key: OTHER.get(field.key, 7)}}) == observed()
    ]
    assert unread == []


def test_the_size_of_nodes_is_read_from_the_programs_template() -> None:
    options = {"MemSpecLimit": 64, "Sockets": 1}
    with_options = changed("nodeSets.0.options", options, changed("nodeSets.0.weight", 7))
    with_options = changed("nodeSets.0.gres", [{"name": "fpga", "type": "u280", "perNode": 2}], with_options)
    config = parse(changed("nodeSets.0.gpus", {"type": "h100", "perNode": 8, "shards": 1024}, with_options))
    declared = [each.body for each in node_set.manifests(config, config.node_sets[0])]
    stateful_set = next(each for each in declared if each["kind"] == "StatefulSet")
    body = {**stateful_set, "metadata": {**stateful_set["metadata"], "resourceVersion": "1"}}
    said = config.node_sets[0]
    assert said.node_gres == "gpu:h100:8,shard:1024,fpga:u280:2"
    # As slurmctld 26.05.5 shows it.
    shown = canonical("gpu:h100:8(S:0-1),shard:h100:1K(S:0-1),fpga:u280:2")
    expected = Facts(said.resources.cpu, said.job_memory_mib, shown, tuple(options.items()))
    assert parse_workload(body).facts == expected
    assert parse_workload(body).weights == (7, said.weight_bucket)
    assert expected.gres == "fpga:u280:2,gpu:h100:8,shard:1024"


def test_the_operator_knows_each_option_of_a_nodes_record() -> None:
    shown = slurmrestd_answers.Node(
        name="cpu-0", state=("IDLE",), reason="", reason_set_by_user="", alloc_cpus=0
    ).options
    assert shown.keys() == {*node_options.ALLOWED}


def test_the_operator_reads_the_features_of_a_node_set() -> None:
    raw = changed("nodeSets.0.features", ["avx512"], changed("nodeSets.0.featureLabels", ["zone"]))
    config = parse(raw)
    read = parse_node_set(slurm_cluster.node_set_resource(config, config.node_sets[0]))
    assert (read.features, read.feature_labels) == (("avx512",), ("zone",))
    assert observed().features is None


def test_the_operator_reads_the_conditions_that_count_as_checks_of_a_node_set() -> None:
    listed = [{"type": kind, "failsWhen": fails_when} for kind, fails_when in WANTED]
    listed += [{"type": "Else", "nodeSets": ["gpu"]}]
    raw = changed("health.nodeConditions", listed, changed("health.checks.unknown", "drain"))
    raw = changed("nodeSets", [*raw["nodeSets"], {**raw["nodeSets"][0], "name": "gpu"}], raw)
    config = parse(raw)
    read = parse_node_set(slurm_cluster.node_set_resource(config, config.node_sets[0]))
    strict = (NodeCondition(kind, fails_when, unknown_drains=True) for kind, fails_when in WANTED)
    assert read.conditions == tuple(strict)
    assert observed().conditions == ()


def pins(path: Path) -> set[str]:
    """Version pins of a requirements file."""
    return {line.strip() for line in path.read_text().splitlines() if "==" in line and not line.startswith("#")}


def test_the_image_holds_the_versions_that_are_tested() -> None:
    assert pins(CHECKOUT / "operator/requirements.in") <= pins(CHECKOUT / "requirements.in")
    locked = {line.split(" ")[0] for line in pins(CHECKOUT / "operator/requirements.txt")}
    assert locked <= {line.split(" ")[0] for line in pins(CHECKOUT / "requirements.txt")}
