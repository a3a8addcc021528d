"""Promises to users of Pulumi: empty previews, small plans, secrets kept, nothing lost."""

from __future__ import annotations

import base64
import json
import subprocess


def planned(slurm) -> dict[str, list[str]]:
    """Types of the resources that the next `up` would touch, by operation."""
    plan = json.loads(slurm.pulumi("preview", "--json").ok())
    touched: dict[str, list[str]] = {}
    for step in plan["steps"]:
        if step["op"] != "same":
            touched.setdefault(step["op"], []).append(step["urn"].split("::")[2].split("$")[-1])
    return touched


def test_a_second_preview_is_empty(slurm):
    slurm.pulumi("preview", "--expect-no-changes").ok()


def test_a_second_preview_with_refresh_is_empty(slurm):
    slurm.pulumi("preview", "--refresh", "--expect-no-changes").ok()


def test_an_up_of_one_replica_number_touches_only_that_node_set(slurm):
    slurm.pulumi("config", "set", "--path", "pulumi-slurm:nodeSets[0].replicas", "3").ok()
    try:
        assert planned(slurm) == {"update": ["kubernetes:pulumi-slurm.dev/v1alpha1:NodeSet"]}
        slurm.pulumi("up", "--yes", "--skip-preview").ok()
        slurm.wait("three nodes", lambda: slurm.nodes().get("cpu-2") == "idle", 120)
        assert slurm.sh("srun -N3 hostname").ok().split()
    finally:
        slurm.pulumi("config", "set", "--path", "pulumi-slurm:nodeSets[0].replicas", "2").ok()
        slurm.pulumi("up", "--yes", "--skip-preview").ok()
    slurm.wait("no ghost of cpu-2", lambda: sorted(slurm.nodes()) == ["cpu-0", "cpu-1"], 120)


def test_another_server_address_replaces_nothing(slurm, tmp_path):
    moved = tmp_path / "kubeconfig"
    content = slurm.cluster.kubeconfig.read_text()
    host = slurm.cluster.login.address()[0]
    moved.write_text(content.replace(host, "192.0.2.7"))
    assert moved.read_text() != content
    environment = {**slurm.cluster.stack.environment(), "KUBECONFIG": str(moved)}
    stack = slurm.cluster.stack
    shown = subprocess.run(
        [str(stack.binaries / "pulumi"), *stack.arguments(["preview", "--json", "--non-interactive"])],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    plan = json.loads(shown.stdout)
    assert not any("replace" in step["op"] or "delete" in step["op"] for step in plan["steps"]), plan["changeSummary"]


def test_no_secret_stands_in_clear_in_state_or_preview(slurm):
    keys = slurm.get("secret", "slurm-keys")["data"].values()
    host_keys = slurm.get("secret", "slurm-ssh-host-keys")["data"]
    private = [value for name, value in host_keys.items() if not name.endswith(".pub")]
    shown = slurm.pulumi("stack", "export").ok() + slurm.pulumi("preview", "--json").ok()
    shown += "".join(file.read_text() for file in (slurm.cluster.stack.folder / "backend").rglob("*.json"))
    for value in [*keys, *private]:
        clear = base64.b64decode(value)
        assert value[:40] not in shown
        assert clear[:40].decode("latin-1") not in shown


def test_a_killed_up_is_completed_by_the_next(slurm):
    slurm.pulumi("config", "set", "--path", "pulumi-slurm:nodeSets[0].replicas", "3").ok()
    try:
        slurm.kill_up(lambda line: "NodeSet" in line and "updating" in line)
    finally:
        slurm.pulumi("config", "set", "--path", "pulumi-slurm:nodeSets[0].replicas", "2").ok()
        slurm.pulumi("up", "--yes", "--skip-preview").ok()
    slurm.pulumi("preview", "--expect-no-changes").ok()
    slurm.wait("two nodes again", lambda: sorted(slurm.nodes()) == ["cpu-0", "cpu-1"], 120)


def test_the_tracked_config_is_never_written(slurm):
    changed = subprocess.run(
        ["git", "status", "--porcelain", "Pulumi.dev.yaml"], capture_output=True, text=True, check=True, timeout=30
    )
    assert changed.stdout == ""


def test_several_login_nodes_stand_behind_one_address_with_one_host_key(slurm):
    slurm.pulumi("config", "set", "--path", "pulumi-slurm:login.replicas", "2").ok()
    try:
        slurm.pulumi("up", "--yes", "--skip-preview").ok()
        # accept-new: another host key behind the same address would be refused.
        seen = {slurm.sh("hostname").ok() for _ in range(20)}
        assert seen == {"slurm-login-0", "slurm-login-1"}
    finally:
        slurm.pulumi("config", "set", "--path", "pulumi-slurm:login.replicas", "1").ok()
        slurm.pulumi("up", "--yes", "--skip-preview").ok()
