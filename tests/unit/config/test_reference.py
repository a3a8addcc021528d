"""The reference pages and the native header say what the models, the lists of keys and the contract say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic.alias_generators import to_snake

from components.config import parse
from components.config.model import model_of
from components.config.nodes.node_sets import NodeSet
from components.config.pages import key_table, reference
from components.config.partitions import Partition
from components.config.program import Config
from components.config.slurm_keys import node_options, partition_options
from components.config.slurm_keys.line_keys import LineKeys
from contract import native
from tests.unit import golden_files
from tests.unit.samples import DIRECTORY, OTHER_IMAGE, changed


def test_the_page_is_current() -> None:
    assert golden_files.REFERENCE.read_text() == reference.text(), golden_files.AGAIN


def test_a_default_is_the_one_in_effect_at_that_place() -> None:
    page = reference.text()
    assert "| `login.resources.memory` | `4Gi` |" in page
    assert "| `controller.resources.memory` | `1Gi` |" in page
    assert "| `nodeSets[].name` | **required** | Name of the set; its nodes are NAME-0, NAME-1 … |" in page
    assert "| `jail.persistent` | `[/home, /root, /srv]` |" in page


SIDECAR = {"name": "shipper", "image": OTHER_IMAGE}


@pytest.mark.parametrize(
    ("path", "base", "default"),
    [
        ("login.resources", {}, ("500m", "4Gi")),
        ("login.sets.0.resources", changed("login.sets", [{"name": "data"}]), ("500m", "4Gi")),
        ("controller.resources", {}, ("250m", "1Gi")),
        ("rest.resources", {}, ("100m", "512Mi")),
        ("accounting.resources", {}, ("100m", "512Mi")),
        ("accounting.databaseResources", {}, ("250m", "2Gi")),
        ("directory.resources", changed("directory", DIRECTORY), ("50m", "256Mi")),
        ("operator.resources", {}, ("100m", "256Mi")),
        ("login.pod.sidecars.0.resources", changed("login.pod.sidecars", [SIDECAR]), ("10m", "64Mi")),
    ],
)
def test_cpu_or_memory_alone_leaves_the_other_one_at_its_sections_default(
    path: str, base: dict[str, Any], default: tuple[str, str]
) -> None:
    def resources(given: dict[str, str]) -> tuple[str, str]:
        found: Any = parse(changed(path, given, base))
        for part in path.split("."):
            found = found[int(part)] if part.isdigit() else getattr(found, to_snake(part))
        return found.cpu, found.memory

    assert resources({}) == default
    assert resources({"cpu": "7"}) == ("7", default[1])
    assert resources({"memory": "9Gi"}) == (default[0], "9Gi")


def models(of: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """A model of the configuration, and all inside it."""
    yield of
    for info in of.model_fields.values():
        if inner := model_of(info.annotation):
            yield from models(inner)


def test_no_section_has_other_defaults_when_it_is_given_in_part() -> None:
    """A default that is made for the whole section would be lost with its first key."""
    fields = [info for model in {*models(Config)} for info in model.model_fields.values()]
    whole = [
        info.get_default(call_default_factory=True, validated_data={}) for info in fields if not info.is_required()
    ]
    sections = [default for default in whole if isinstance(default, BaseModel)]
    assert len(sections) > 20
    assert [default for default in sections if default != type(default)()] == []


def test_the_native_header_is_current() -> None:
    assert golden_files.NATIVE_HEADER.read_text() == native.header(), golden_files.AGAIN


def test_the_table_of_keys_is_current() -> None:
    assert golden_files.KEY_TABLE.read_text() == key_table.text(), golden_files.AGAIN


@pytest.mark.parametrize("keys", [node_options.KEYS, partition_options.KEYS], ids=["nodes", "partitions"])
def test_a_key_of_a_line_is_in_one_list(keys: LineKeys) -> None:
    """tests/image/configuration/test_options.py compares the lists with the installed Slurm."""
    said = [key.lower() for each in (keys.typed, keys.owned, keys.refused, keys.allowed) for key in each]
    assert sorted(set(said)) == sorted(said)


def test_the_key_that_sets_one_of_slurms_is_a_field() -> None:
    fields = {info.alias for info in Partition.model_fields.values()}
    assert fields - {"options", "hangs"} == set(partition_options.TYPED.values())
    named = {name.partition(".")[0] for name in node_options.TYPED.values()}
    assert named <= {info.alias for info in NodeSet.model_fields.values()}
