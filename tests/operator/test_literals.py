"""Literals that the operator repeats, since it may not import the program, are those of the program."""

from __future__ import annotations

from pathlib import Path

import yaml
from slurm_node import drains, settings
from slurm_operator import names, observe
from slurm_operator.seen import Facts

from components import names as program
from components import node_set, rehearsal
from components.config import parse
from tests.unit.samples import SMALL, changed

REPOSITORY = Path(__file__).parents[2]


def test_names_are_the_programs() -> None:
    assert f"{names.GROUP}/{names.VERSION}" == program.API_VERSION
    assert names.WANTED_CONFIG == program.CONFIG_WANTED
    assert names.ACTIVE_CONFIG == program.CONFIG_ACTIVE
    assert names.SLURM_CONF == program.SLURM_CONF
    assert names.CONFIG_MARK == program.CONFIG_MARK
    assert names.LEDGER_SECRET == program.LEDGER
    assert names.LEDGER_REVISION_KEY == program.LEDGER_REVISION
    assert names.LEDGER_DATA_KEY == program.LEDGER_DATA
    assert names.LEDGER_PAYLOADS == program.LEDGER_PAYLOADS
    assert names.DECLARING_MANAGER == program.FIELD_MANAGER
    assert f"{program.SECRETS_SLURM}/{program.JWT_KEY}" == names.JWT_KEY_FILE
    assert names.HEALTH_PORT == program.OPERATOR_HEALTH_PORT
    assert names.EVICTABLE_LABEL == program.LABEL_EVICTABLE
    assert names.REPLICAS_ANNOTATION == program.ANNOTATION_REPLICAS
    labels = [names.NAME_LABEL, names.INSTANCE_LABEL, names.COMPONENT_LABEL, names.NODE_SET_LABEL]
    expected = [program.LABEL_NAME, program.LABEL_INSTANCE, program.LABEL_COMPONENT, program.LABEL_NODE_SET]
    assert labels == expected


def test_reasons_are_those_that_nodes_write_and_read() -> None:
    assert settings.NEW_REASON == names.NEW_REASON
    assert all(reason.startswith(drains.PREFIXES) for reason in names.UNFIT_REASONS)
    assert f"{names.UPDATE_REASON}{names.DEADLINE_PASSED}" == "pulumi-slurm:update, its deadline has passed"


def test_the_size_of_nodes_is_read_from_the_programs_template() -> None:
    config = parse(changed("nodeSets.0.gpus", {"type": "h100", "perNode": 8}, SMALL))
    declared = [each.body for each in node_set.manifests(config, config.node_sets[0])]
    stateful_set = next(each for each in declared if each["kind"] == "StatefulSet")
    body = {**stateful_set, "metadata": {**stateful_set["metadata"], "resourceVersion": "1"}}
    said = config.node_sets[0]
    expected = Facts(said.resources.cpu, said.job_memory_mib, said.gres or "")
    assert observe.workload(body).facts == expected
    assert expected.gres == "gpu:h100:8"


def test_the_resources_have_the_programs_names() -> None:
    body = yaml.safe_load((REPOSITORY / "operator/crds/slurmclusters.yaml").read_text())
    schema = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    properties = schema["properties"]["spec"]["properties"]
    defaults = {name: field["default"] for name, field in properties.items() if field.get("default")}
    assert defaults == {
        "wantedConfig": program.CONFIG_WANTED,
        "activeConfig": program.CONFIG_ACTIVE,
        "controller": program.CONTROLLER,
        "restDeployment": program.REST,
        "login": program.LOGIN,
    }
    assert properties["rest"]["properties"]["url"]["default"] == f"http://{program.REST}:{program.SLURMRESTD_PORT}"
    assert properties["rehearsal"]["properties"]["url"]["default"] == rehearsal.url()
    node_set = (REPOSITORY / "operator/crds/nodesets.yaml").read_text()
    assert f"startsWith('{program.RESERVED_PREFIX}')" in node_set


def pins(path: Path) -> set[str]:
    """Version pins of a requirements file."""
    return {line.strip() for line in path.read_text().splitlines() if "==" in line and not line.startswith("#")}


def test_the_image_holds_the_versions_that_are_tested() -> None:
    assert pins(REPOSITORY / "operator/requirements.in") <= pins(REPOSITORY / "requirements.in")
    locked = {line.split(" ")[0] for line in pins(REPOSITORY / "operator/requirements.txt")}
    assert locked <= {line.split(" ")[0] for line in pins(REPOSITORY / "requirements.txt")}
