"""RDMA, secondary networks and NCCL: what is declared for them, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from components import slurm_cluster
from components.addons import network_operator
from components.config import ConfigurationError, parse
from components.config.nodes.nccl import FABRICS, FabricProduct
from components.pods import pod_security
from components.preflight import cluster_checks, rdma_checks
from components.preflight.gpu_checks import ClusterState, KubernetesNode
from contract import names
from tests.unit.effects.network_effects import (
    EFFECTS,
    EXISTING,
    INTERFACES,
    NETWORK,
    POOL,
    RDMA,
    SHARED,
    SRIOV,
    VIRTUAL,
    Probe,
    operator,
    worker_pod,
)
from tests.unit.samples import SMALL, changed, run_program
from tests.unit.slurm.conf_lines import lines

INSTALL = changed("networkOperator.mode", "install", SHARED)


@pytest.mark.parametrize(
    ("base", "path", "value", "probe", "expected"),
    EFFECTS,
    ids=[f"{path}-{n}" for n, (_, path, *_) in enumerate(EFFECTS)],
)
def test_the_field_does_what_it_says(
    base: Mapping[str, Any], path: str, value: Any, probe: Probe, expected: Any
) -> None:
    assert probe(parse(changed(path, value, base))) == expected
    try:
        unchanged = probe(parse(base))
    except (KeyError, TypeError):
        return
    assert unchanged != expected, f"{path} changes nothing"


BAD: list[tuple[Mapping[str, Any], str, Any, str]] = [
    (
        SMALL,
        "nodeSets.0.network.rdma",
        {"resource": "rdma/fabric"},
        "pulumi-slurm:nodeSets[0].network.rdma.resource: got 'rdma/fabric'; want nothing, or networkOperator.mode",
    ),
    (SMALL, "nodeSets.0.network.secondary", ["a"], 'nodeSets[0].network.secondary: got ["a"]; want nothing, or networ'),
    (
        SMALL,
        "nodeSets.0.network.product",
        "h900",
        "nodeSets[0].network.product: got 'h900'; want one of 'infiniband', 'coreweave-infiniband'",
    ),
    (
        SMALL,
        "nodeSets.0.network.nccl",
        {"PATH": "/x"},
        "network.nccl.PATH: got 'PATH'; want a variable of NCCL such as",
    ),
    (SMALL, "nodeSets.0.network.nccl", {"NCCL_X": "a\nNCCL_Y=b"}, "want one value without spaces around it"),
    (SMALL, "nodeSets.0.network.nccl", {"NCCL_X": True}, "want text or a whole number"),
    (SMALL, "nodeSets.0.network.rdma", {"resource": "a b"}, "want a Kubernetes label key"),
    (EXISTING, "nodeSets.0.network.rdma", {"resource": "rdma/a", "count": 0}, "rdma.count: got 0; want 1 or more"),
    (
        SHARED,
        "nodeSets.0.network.rdma",
        {"resource": "rdma/other"},
        "got 'rdma/other'; want a resource of networkOperator.pools; there are: rdma/fabric",
    ),
    (
        SRIOV,
        "nodeSets.0.network.rdma",
        {"resource": "rdma/fabric"},
        "got 'rdma/fabric'; want a resource of networkOperator.pools; there are: nvidia.com/fabric",
    ),
    (INSTALL, "nodeSets.0.network.secondary", ["a"], "secondary[0]: got 'a'; want a name of networkOperator.networks"),
    (SMALL, "networkOperator.mode", "maybe", "networkOperator.mode: got 'maybe'; want one of 'install', 'existing' or"),
    (SMALL, "networkOperator.pools", [POOL], "pulumi-slurm:networkOperator.pools: got [{"),
    (
        SMALL,
        "networkOperator.mode",
        "install",
        "networkOperator.pools: got nothing; want at least one pool of adapters",
    ),
    (
        SHARED,
        "networkOperator.pools",
        [POOL, POOL],
        "pools[1].name: got 'fabric'; want another name: pools[0] has this",
    ),
    (SHARED, "networkOperator.pools.0.name", "a-b", "networkOperator.pools[0].name: got 'a-b'; want letters, digits"),
    (SHARED, "networkOperator.pools.0.vendor", "Mellanox", "pools[0].vendor: got 'Mellanox'; want four hex digits"),
    (SHARED, "networkOperator.pools.0.virtualFunctions", 4, "want nothing: it is for networkOperator.rdma: sriov"),
    (SRIOV, "networkOperator.pools.0.maxPods", 4, "want nothing: it is for networkOperator.rdma: shared"),
    (
        EXISTING,
        "networkOperator",
        {"mode": "existing", "rdma": "sriov", "pools": [POOL]},
        "pools[0].virtualFunctions: got nothing; want a number of virtual functions",
    ),
    (SHARED, "networkOperator.version", "latest version", "want a version such as 26.4.1"),
    (INTERFACES, "networkOperator.networks", [NETWORK, NETWORK], "networks[1].name: got 'net'; want another name"),
    (
        INTERFACES,
        "networkOperator.networks.0.interface",
        None,
        "networks[0].interface: got nothing; want an interface of the nodes such as ibs1f0",
    ),
    (INTERFACES, "networkOperator.networks.0.interface", "a b", "want the name of a network interface"),
    (
        INTERFACES,
        "networkOperator.networks.0.pool",
        "fabric",
        "networks[0].pool: got 'fabric'; want nothing: it is for",
    ),
    (INTERFACES, "networkOperator.networks.0.kind", "sriov", "want ipoib or macvlan, or networkOperator.rdma: sriov"),
    (INTERFACES, "networkOperator.networks.0.subnet", "10.0.0.1/8", "want an address range such as 192.0.2.0/24"),
    (
        VIRTUAL,
        "networkOperator.networks.0.pool",
        "x",
        "networks[0].pool: got 'x'; want the name of a pool; there are: o",
    ),
    (
        RDMA,
        "slurm.options",
        {"PropagateResourceLimits": "NONE"},
        "want nothing, or limits in PropagateResourceLimitsExc",
    ),
]


@pytest.mark.parametrize(
    ("base", "path", "value", "expected"), BAD, ids=[f"{path}-{n}" for n, (_, path, *_) in enumerate(BAD)]
)
def test_what_cannot_work_is_refused_with_its_path_and_the_fix(
    base: Mapping[str, Any], path: str, value: Any, expected: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse(changed(path, value, base))
    assert expected in str(refused.value)


def test_an_installed_operator_is_a_pinned_chart_before_what_it_is_told_and_the_nodes() -> None:
    raw = changed("nodeSets.0.network", {"rdma": {"resource": "rdma/fabric"}}, INSTALL)
    engine, _ = run_program(raw)
    release = engine.one("Release", "network-operator")
    assert release.type == "kubernetes:helm.sh/v3:Release"
    assert release.inputs["version"] == "26.4.1"
    assert release.inputs["repositoryOpts"] == {"repo": "https://helm.ngc.nvidia.com/nvidia"}
    assert release.inputs["values"]["nfd"] == {"enabled": False}
    assert (release.inputs["namespace"], release.inputs["createNamespace"]) == ("nvidia-network-operator", True)
    policy = engine.one("NicClusterPolicy", "nicclusterpolicy-nic-cluster-policy")
    assert release.urn in policy.dependencies
    assert {release.urn, policy.urn} <= engine.one("StatefulSet", "cpu").dependencies


def test_a_preview_of_an_installation_knows_everything_that_the_operator_is_told() -> None:
    engine, _ = run_program(INSTALL, preview=True)
    policy = engine.one("NicClusterPolicy", "nicclusterpolicy-nic-cluster-policy").inputs
    assert json.loads(policy["spec"]["rdmaSharedDevicePlugin"]["config"])["configList"][0]["resourceName"] == "fabric"


@pytest.mark.parametrize(("raw", "chart"), [(SMALL, 0), (SHARED, 0), (INSTALL, 1)])
def test_only_install_brings_a_chart_and_nothing_of_it_stands_in_the_ledger(raw: Mapping[str, Any], chart: int) -> None:
    engine, _ = run_program(raw)
    assert len([each for each in engine.registered if each.type.endswith(":Release")]) == chart
    kinds = {each.kind for each in slurm_cluster.manifests(parse(raw))}
    assert "NicClusterPolicy" not in kinds


def test_an_existing_operator_that_is_told_nothing_is_left_as_it_is() -> None:
    assert network_operator.custom_resources(parse(EXISTING)) == []
    engine, _ = run_program(EXISTING)
    assert [each.name for each in engine.registered if "mellanox.com" in each.type] == []


def test_every_secondary_network_has_the_parts_that_it_needs() -> None:
    kinds = [each["kind"] for each in network_operator.custom_resources(parse(VIRTUAL))]
    assert kinds == ["NicClusterPolicy", "SriovNetworkNodePolicy", "SriovNetworkNodePolicy", "IPPool", "SriovIBNetwork"]
    policy = network_operator.policy(parse(operator(networks=[{**NETWORK, "kind": "ipoib"}])))
    assert policy is not None
    assert policy["spec"].keys() == {"nvIpam", "secondaryNetwork"}
    assert policy["spec"]["secondaryNetwork"].keys() == {"cniPlugins", "multus", "ipoib"}


def test_only_nodes_with_rdma_may_pin_memory() -> None:
    plain, rdma = parse(SMALL), parse(RDMA)

    def capabilities(config: Any) -> list[str]:
        added: list[str] = worker_pod(config)["spec"]["containers"][0]["securityContext"]["capabilities"]["add"]
        return added

    assert (
        set(capabilities(rdma)) - set(capabilities(plain)) == {"IPC_LOCK", "SYS_RESOURCE"} == pod_security.RDMA.keys()
    )
    assert lines(plain)["PropagateResourceLimitsExcept"] == "AS,NPROC"
    assert lines(rdma)["PropagateResourceLimitsExcept"] == "AS,NPROC,MEMLOCK"
    more = parse(changed("slurm.options", {"PropagateResourceLimitsExcept": "CORE"}, RDMA))
    assert lines(more)["PropagateResourceLimitsExcept"] == "AS,NPROC,MEMLOCK,CORE"
    others = parse(changed("slurm.options", {"PropagateResourceLimits": "NONE"}))
    assert "PropagateResourceLimitsExcept" not in lines(others)
    environment = {each["name"]: json.loads(each["value"]) for each in worker_pod(rdma)["spec"]["containers"][0]["env"]}
    assert environment["SLURM_NODE"]["pinsMemory"] is True


def test_nodes_without_networks_are_what_they_were() -> None:
    (container,) = worker_pod(parse(SMALL))["spec"]["containers"]
    environment = {each["name"]: json.loads(each["value"]) for each in container["env"]}
    assert not {"nccl", "pinsMemory"} & environment["SLURM_NODE"].keys()
    assert "shmMib" not in environment["SLURM_JAIL"]
    assert "annotations" not in worker_pod(parse(SMALL))["metadata"]


def test_every_product_names_its_source_and_only_variables_of_nccl() -> None:
    assert FABRICS.keys() == set(FabricProduct)
    for fabric in FABRICS.values():
        assert fabric.source.startswith("https://")
        assert fabric.machines
        assert all(name.startswith("NCCL_") for name in fabric.variables)
        parse(changed("nodeSets.0.network.nccl", dict(fabric.variables)))


def test_a_users_variable_goes_before_that_of_the_product() -> None:
    raw = changed("nodeSets.0.network", {"product": "oci-h100-roce", "nccl": {"NCCL_IB_TC": "106"}})
    variables = parse(raw).node_sets[0].network.nccl_variables
    assert (variables["NCCL_IB_TC"], variables["NCCL_IB_GID_INDEX"]) == ("106", "3")


@pytest.mark.parametrize(
    ("raw", "offered", "expected"),
    [
        (RDMA, {"rdma/fabric": 63}, []),
        (
            RDMA,
            {},
            ["pulumi-slurm:nodeSets[0].network.rdma.resource: got 'rdma/fabric'; want a resource that a node of"],
        ),
        (
            changed("nodeSets.0.network.rdma.count", 3, RDMA),
            {"rdma/fabric": 2},
            ["pulumi-slurm:nodeSets[0].network.rdma.count: got 3; want at most 2: no node that the set may use offers"],
        ),
        # Nodes offer a pool of this stack only once the stack is there.
        (changed("networkOperator.pools", [POOL], RDMA), {}, []),
    ],
)
def test_an_existing_operator_must_offer_what_node_sets_ask_for(
    raw: Mapping[str, Any], offered: Mapping[str, int], expected: list[str]
) -> None:
    there = ClusterState((KubernetesNode("a", allocatable=offered), KubernetesNode("b")), frozenset())
    found = [
        str(each)[: len(text)] for each, text in zip(rdma_checks.problems(parse(raw), there), expected, strict=True)
    ]
    assert found == expected
    checked = parse(changed("checks.cluster", True, raw))
    if expected:
        with pytest.raises(ConfigurationError, match="nothing was changed"):
            cluster_checks.run(checked, lambda _: there)
    else:
        cluster_checks.run(checked, lambda _: there)


def test_labels_tell_whose_a_network_is() -> None:
    for body in network_operator.custom_resources(parse(INTERFACES)):
        assert body["metadata"]["labels"][names.LABEL_MANAGED_BY] == names.PROJECT
