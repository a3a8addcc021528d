"""Objects come, change, and go as declared."""

from __future__ import annotations

import pytest

from tests.provider.stacks import Stack

pytestmark = pytest.mark.apiserver


def test_an_object_is_made_changed_and_deleted(stack: Stack) -> None:
    text = 'k.core.v1.ConfigMap("a", metadata={{"name": "a", "namespace": namespace}}, data={data}, opts=options)'
    stack.program(text.format(data={"key": "one"}), enable_config_map_mutable=True)
    stack.up()
    path = f"/api/v1/namespaces/{stack.namespace}/configmaps/a"
    assert stack.cluster.get(path)["data"] == {"key": "one"}
    assert stack.steps() == {}
    stack.program(text.format(data={"key": "two"}), enable_config_map_mutable=True)
    assert stack.steps() == {"a": "update"}
    stack.up()
    assert stack.cluster.get(path)["data"] == {"key": "two"}
    stack.pulumi("destroy", "--yes", "--skip-preview")
    assert stack.cluster.get(path)["code"] == 404
