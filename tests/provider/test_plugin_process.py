"""The stand-in's process ends as the official plugin does: by itself, when the engine asks for it."""

from __future__ import annotations

import pytest

from tests.provider.stacks import Stack

pytestmark = pytest.mark.apiserver


@pytest.mark.usefixtures("own_processes")
def test_the_engine_has_no_complaint_about_how_the_plugin_ended(stack: Stack) -> None:
    stack.program('k.core.v1.ConfigMap("a", metadata={"name": "a", "namespace": namespace}, opts=options)')
    stack.up()
    # One process refreshes and another previews, so that the engine has two to end.
    assert "exited prematurely" not in stack.pulumi("preview", "--refresh", "--expect-no-changes")
