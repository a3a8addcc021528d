"""The CRDs say what the configuration says: its keys, types, defaults and limits."""

from __future__ import annotations

from typing import Any

import pytest

from components.config.model import setting
from components.config.nodes.policy import Policy
from components.config.values.quantities import Duration, WholeNumber
from components.control.crds import files, schema
from tests.unit import golden_files


class Trial(Policy):
    """A policy with a setting of each type."""

    after: Duration = setting("Some time.", default="2m")
    until: Duration | None = setting("Some more time.", default=None)
    nodes: WholeNumber = setting("Some nodes.", ge=1, le=20)


def test_the_files_are_current() -> None:
    assert {file.name: file.read_text() for file in files.FOLDER.iterdir()} == files.files(), golden_files.AGAIN


def test_a_policy_has_the_keys_types_defaults_and_limits_of_the_configuration() -> None:
    made = schema.policy(Trial, {"untilSeconds": {"maximum": 60}})
    assert made == {
        "type": "object",
        "required": ["nodes"],
        "properties": {
            "afterSeconds": {
                "description": "Some time.", "type": "integer", "format": "int64", "minimum": 0, "maximum": 315_360_000,
                "default": 120,
            },
            "untilSeconds": {
                "description": "Some more time.", "type": "integer", "format": "int64", "minimum": 0, "maximum": 60,
            },
            "nodes": {
                "description": "Some nodes.", "type": "integer", "format": "int32", "minimum": 1, "maximum": 20,
            },
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"nodes": 2}, {"afterSeconds": 120, "nodes": 2}),
        ({"nodes": 2, "after": "3s", "until": "1h"}, {"afterSeconds": 3, "untilSeconds": 3600, "nodes": 2}),
    ],
)
def test_a_policy_is_written_under_the_keys_of_its_schema(given: dict[str, Any], said: dict[str, Any]) -> None:
    policy = Trial.model_validate(given).policy
    assert policy == said
    assert policy.keys() <= schema.policy(Trial, {})["properties"].keys()
