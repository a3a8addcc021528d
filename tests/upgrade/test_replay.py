"""The state of an older program, previewed under today's: keys, volumes and sets of pods are never replaced."""

from __future__ import annotations

import json
import re
import tomllib

import pytest

from devcluster.machine.bootstrap import CHECKOUT
from tests.upgrade.recorded_stack import STATES, RecordedStack

NEVER_REPLACED = ("Keys", "PersistentVolumeClaim", "StatefulSet", "Namespace", "NodeSet", "SlurmCluster")


@pytest.mark.parametrize("state", STATES)
def test_an_update_of_the_program_replaces_nothing_that_users_would_miss(binaries, preloaded, tmp_path, state):
    stack = RecordedStack(tmp_path, binaries, preloaded, state)
    plan = json.loads(stack.pulumi("preview", "--json", "--show-sames", "--config-file", str(stack.config_file)))

    # Under another name an old object would have a step that deletes it.
    lost = [
        (step["op"], step["urn"].split("::", 2)[2])
        for step in plan["steps"]
        if step["op"] not in ("same", "update")
        and step["urn"] in stack.recorded
        and step["urn"].split("::")[2].split(":")[-1] in NEVER_REPLACED
    ]
    assert len(stack.recorded) > 20
    assert lost == []
    (workers,) = [step["op"] for step in plan["steps"] if step["urn"].endswith("StatefulSet::cpu")]
    assert workers in ("same", "update"), "it is the same stack"


def test_a_stack_says_which_release_declared_it(binaries, preloaded, tmp_path):
    stack = RecordedStack(tmp_path, binaries, preloaded, "v0.1.json")
    shown = stack.pulumi("preview", "--color", "never", "--config-file", str(stack.config_file))
    version = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["version"]
    assert re.search(rf'^\s*\+ version *: "{re.escape(version)}"$', shown, re.MULTILINE), shown
