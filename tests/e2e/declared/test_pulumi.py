"""Promises to users of Pulumi: empty previews, small plans, secrets kept, nothing lost."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator

import pytest

NODES, LOGINS = "pulumi-slurm:nodeSets[0].replicas", "pulumi-slurm:login.replicas"


def test_a_second_preview_with_refresh_is_empty(slurm):
    slurm.pulumi("preview", "--refresh", "--expect-no-changes").ok()


def test_the_tracked_config_is_never_written(slurm):
    changed = subprocess.run(
        ["git", "status", "--porcelain", "Pulumi.dev.yaml"], capture_output=True, text=True, check=True, timeout=30
    )
    assert changed.stdout == ""


def counts(slurm) -> tuple[int, int]:
    """Return how many nodes and login nodes are declared."""
    found = slurm.get("nodeset", "cpu"), slurm.get("statefulset", "slurm-login")
    nodes, logins = (each["spec"]["replicas"] for each in found)
    return nodes, logins


def declare(slurm, nodes: int, logins: int = 1) -> None:
    """Set both numbers in the stack's config."""
    slurm.pulumi("config", "set", "--path", NODES, str(nodes)).ok()
    slurm.pulumi("config", "set", "--path", LOGINS, str(logins)).ok()


@pytest.fixture(scope="module")
def plan(slurm) -> Iterator[str]:
    """A preview of a third node as JSON, and then the node, with a second login node.

    Afterwards there are two nodes and one login node.
    """
    try:
        declare(slurm, nodes=3)
        shown = slurm.pulumi("preview", "--json").ok()
        declare(slurm, nodes=3, logins=2)
        slurm.pulumi("up", "--yes", "--skip-preview").ok()
        yield shown
    finally:
        declare(slurm, nodes=2)
        if counts(slurm) != (2, 1):
            slurm.pulumi("up", "--yes", "--skip-preview").ok()


def planned(shown: str) -> dict[str, list[str]]:
    """Types of the resources that the next `up` would touch, by operation."""
    touched: dict[str, list[str]] = {}
    for step in json.loads(shown)["steps"]:
        if step["op"] != "same":
            touched.setdefault(step["op"], []).append(step["urn"].split("::")[2].split("$")[-1])
    return touched


def test_an_up_of_one_replica_number_touches_only_that_node_set(slurm, plan):
    assert planned(plan) == {"update": ["kubernetes:pulumi-slurm.dev/v1alpha1:NodeSet"]}
    slurm.wait("three nodes", lambda: slurm.nodes().get("cpu-2") == "idle", 120)
    assert sorted(slurm.sh("srun -N3 hostname").ok().split()) == ["cpu-0", "cpu-1", "cpu-2"]


def test_no_secret_stands_in_clear_in_state_or_preview(slurm, plan):
    keys = slurm.get("secret", "slurm-keys")["data"].values()
    host_keys = slurm.get("secret", "slurm-ssh-host-keys")["data"]
    private = [value for name, value in host_keys.items() if not name.endswith(".pub")]
    shown = slurm.pulumi("stack", "export").ok() + plan
    shown += "".join(file.read_text() for file in (slurm.cluster.stack.folder / "backend").rglob("*.json"))
    for value in [*keys, *private]:
        clear = base64.b64decode(value)
        assert value[:40] not in shown
        assert clear[:40].decode("latin-1") not in shown


def test_several_login_nodes_stand_behind_one_address_with_one_host_key(slurm, plan):
    """The next test takes the second one away."""
    # accept-new: another host key behind the same address would be refused.
    seen = {slurm.sh("hostname").ok() for _ in range(20)}
    assert seen == {"slurm-login-0", "slurm-login-1"}


def test_a_killed_up_is_completed_by_the_next(slurm, plan):
    declare(slurm, nodes=2)
    slurm.kill_up(lambda line: "NodeSet" in line and "updating" in line)
    slurm.pulumi("up", "--yes", "--skip-preview").ok()
    # Without a refresh, which test_a_second_preview_with_refresh_is_empty has.
    slurm.pulumi("preview", "--expect-no-changes").ok()
    assert counts(slurm) == (2, 1)
    slurm.wait("two nodes again", lambda: sorted(slurm.nodes()) == ["cpu-0", "cpu-1"], 120)
