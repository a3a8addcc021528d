"""The reference pages and the native header say what the models, the lists of keys and the contract say."""

from __future__ import annotations

import pytest

from components.config.nodes.node_sets import NodeSet
from components.config.pages import key_table, reference
from components.config.partitions import Partition
from components.config.values import node_options, partition_options
from components.config.values.line_keys import LineKeys
from contract import native
from tests.unit import golden_files


def test_the_page_is_current() -> None:
    assert golden_files.REFERENCE.read_text() == reference.text(), golden_files.AGAIN


def test_a_default_is_the_one_in_effect_at_that_place() -> None:
    page = reference.text()
    assert "| `login.resources.memory` | `4Gi` |" in page
    assert "| `controller.resources.memory` | `1Gi` |" in page
    assert "| `nodeSets[].name` | **required** | Name of the set; its nodes are NAME-0, NAME-1 … |" in page
    assert "| `jail.persistent` | `[/home, /root, /srv]` |" in page


def test_the_native_header_is_current() -> None:
    assert golden_files.NATIVE_HEADER.read_text() == native.header(), golden_files.AGAIN


def test_the_table_of_keys_is_current() -> None:
    assert golden_files.KEY_TABLE.read_text() == key_table.text(), golden_files.AGAIN


@pytest.mark.parametrize("keys", [node_options.KEYS, partition_options.KEYS], ids=["nodes", "partitions"])
def test_a_key_of_a_line_is_in_one_list(keys: LineKeys) -> None:
    """tests/image/test_options.py compares the lists with the installed Slurm."""
    said = [key.lower() for each in (keys.typed, keys.owned, keys.refused, keys.allowed) for key in each]
    assert sorted(set(said)) == sorted(said)


def test_the_key_that_sets_one_of_slurms_is_a_field() -> None:
    fields = {info.alias for info in Partition.model_fields.values()}
    assert fields - {"options", "hangs"} == set(partition_options.TYPED.values())
    named = {name.partition(".")[0] for name in node_options.TYPED.values()}
    assert named <= {info.alias for info in NodeSet.model_fields.values()}
