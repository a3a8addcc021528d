"""The stack files of the repository are right, and the project file describes every key."""

from __future__ import annotations

from typing import get_args

import pytest
import yaml

from components import slurm_cluster
from components.config import Config, ConfigurationError, parse
from components.config.accounting import AccountingMode
from components.config.addons.network_operator import LinkType
from components.config.logins.service import ServiceType
from components.config.values.quantities import cpu_millis
from devcluster.machine.bootstrap import CHECKOUT
from tests.unit.golden_files import stack
from tests.unit.samples import SSH_KEY


def test_the_project_file_has_every_key_and_no_other() -> None:
    project = yaml.safe_load((CHECKOUT / "Pulumi.yaml").read_text())
    keys = {key.removeprefix("pulumi-slurm:"): value for key, value in project["config"].items()}
    fields = {info.alias: info for info in Config.model_fields.values()}
    assert keys.keys() == fields.keys()
    for name, key in keys.items():
        assert ("default" not in key) == fields[name].is_required(), name


def test_the_project_file_names_every_key_inside_a_key() -> None:
    project = yaml.safe_load((CHECKOUT / "Pulumi.yaml").read_text())["config"]
    for info in Config.model_fields.values():
        (inner,) = get_args(info.annotation) or (info.annotation,)
        description = project[f"pulumi-slurm:{info.alias}"]["description"]
        for field in inner.model_fields.values():
            assert field.alias in description, f"{info.alias}: {field.alias}"


def test_the_gpu_example_is_complete() -> None:
    config = stack("gpu.example")
    gpu = next(each for each in config.node_sets if each.gpus)
    assert (gpu.replicas, gpu.node_gres) == (8, "gpu:h100:8")
    assert [partition.name for partition in config.partitions] == ["main", "gpu"]
    assert config.jail.storage.retain
    assert config.jail.storage.protect
    assert gpu.network.rdma is not None
    assert config.network_operator.pools[0].link is LinkType.INFINIBAND
    assert [each.name for each in config.node_sets if not each.gpus] == ["cpu"]
    assert config.login.service.type is ServiceType.LOAD_BALANCER
    assert config.accounting.mode is AccountingMode.EXTERNAL
    modes = {str(part.mode) for part in (config.gpu_operator, config.network_operator, config.certificates)}
    assert modes == {"existing"}
    assert config.rest_tls
    assert config.accounting.external is not None
    assert config.accounting.external.ca_secret is not None


def test_the_dev_stack_needs_exactly_the_facts_that_its_header_names() -> None:
    content = yaml.safe_load((CHECKOUT / "Pulumi.dev.yaml").read_text())["config"]
    raw = {key.removeprefix("pulumi-slurm:"): value for key, value in content.items()}
    with pytest.raises(ConfigurationError) as refused:
        parse(raw)
    missing = sorted(".".join(str(part) for part in problem.path) for problem in refused.value.problems)
    assert missing == ["images.database", "images.operator", "images.slurm", "jail.image"]
    header = (CHECKOUT / "Pulumi.dev.yaml").read_text().partition("config:\n")[0]
    assert all(f"pulumi-slurm:{path}" in header for path in missing)


def test_the_dev_stack_fits_a_machine_with_two_cores() -> None:
    config = stack("dev")
    asked = 0
    for manifest in slurm_cluster.manifests(config):
        if manifest.kind not in ("StatefulSet", "Deployment", "Job"):
            continue
        spec = manifest.body["spec"]["template"]["spec"]
        count = 2 if manifest.name == "cpu" else 1
        everything = [*spec.get("initContainers", []), *spec["containers"]]
        asked += count * sum(cpu_millis(each["resources"]["requests"]["cpu"]) for each in everything)
    assert config.node_sets[0].replicas == 2
    assert asked <= 1500, f"{asked}m of 2000m, and the node's own programs need some"


def test_nothing_of_the_dev_stack_is_kept_after_destroy() -> None:
    config = stack("dev")
    assert not any(each.retain for each in slurm_cluster.manifests(config) if each.kind != "CustomResourceDefinition")


def test_the_dev_stack_takes_a_persons_key() -> None:
    content = yaml.safe_load((CHECKOUT / "Pulumi.dev.yaml").read_text())["config"]
    raw = {key.removeprefix("pulumi-slurm:"): value for key, value in content.items()}
    raw["images"] |= {name: f"localhost/a/{name}:0123456789abcdef" for name in ("slurm", "operator", "database")}
    raw["jail"]["image"] = "localhost/a/jail:0123456789abcdef"
    raw["login"]["users"] = [{"name": "alice", "sshPublicKeys": [SSH_KEY], "sudo": True}]
    assert parse(raw).login.users[0].sudo
