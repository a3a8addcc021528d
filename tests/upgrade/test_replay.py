"""The state of an older program, previewed under today's: keys, volumes and sets of pods are never replaced."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

CHECKOUT = Path(__file__).parents[2]
RECORDED = Path(__file__).parent / "recorded"
NEVER_REPLACED = ("Keys", "PersistentVolumeClaim", "StatefulSet", "Namespace", "NodeSet", "SlurmCluster")
FACTS = {
    "pulumi-slurm:images": {"slurm": "localhost/slurm:0123456789abcdef", "operator": "localhost/op:0123456789abcdef"},
    "pulumi-slurm:jail": {"image": "localhost/jail:0123456789abcdef"},
}


@pytest.mark.parametrize("state", sorted(file.name for file in RECORDED.glob("*.json")))
def test_an_update_of_the_program_replaces_nothing_that_users_would_miss(binaries, tmp_path, state):
    (tmp_path / "Pulumi.yaml").write_text("name: pulumi-slurm\nruntime: python\n")
    # A cluster that cannot be reached: a preview compares the program with the state alone.
    unreachable = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
    }  # fmt: skip
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(unreachable))
    environment = {
        "PATH": f"{CHECKOUT / 'devcluster/standin/bin'}:{Path(sys.executable).parent}:{binaries}:{os.environ['PATH']}",
        "HOME": str(tmp_path), "PULUMI_HOME": str(tmp_path / "home"), "PULUMI_BACKEND_URL": f"file://{tmp_path}",
        "PULUMI_CONFIG_PASSPHRASE": secrets.token_hex(8), "PULUMI_SKIP_UPDATE_CHECK": "true", "PULUMI_STACK": "dev",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true", "KUBECONFIG": str(tmp_path / "kubeconfig"),
    }  # fmt: skip

    def pulumi(*arguments: str) -> str:
        done = subprocess.run(
            [binaries / "pulumi", *arguments, "--non-interactive"], cwd=CHECKOUT, env=environment,
            capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    pulumi("-C", str(tmp_path), "stack", "init", "dev")
    salted = yaml.safe_load((tmp_path / "Pulumi.dev.yaml").read_text())
    old = json.loads((RECORDED / state).read_text())
    old["deployment"]["secrets_providers"] = {"type": "passphrase", "state": {"salt": salted["encryptionsalt"]}}
    (tmp_path / "state.json").write_text(json.dumps(old))
    pulumi("-C", str(tmp_path), "stack", "import", "--file", str(tmp_path / "state.json"))
    config = yaml.safe_load((CHECKOUT / "Pulumi.dev.yaml").read_text())["config"]
    merged = {**config, **{key: {**config.get(key, {}), **facts} for key, facts in FACTS.items()}}
    (tmp_path / "Pulumi.dev.yaml").write_text(yaml.safe_dump({**salted, "config": merged}))

    plan = json.loads(pulumi("preview", "--json", "--config-file", str(tmp_path / "Pulumi.dev.yaml")))

    # What stays as it is has no step here, so a kept object is one that is neither replaced, deleted nor made anew.
    lost = [
        (step["op"], step["urn"].split("::", 2)[2])
        for step in plan["steps"]
        if step["op"] not in ("same", "update") and step["urn"].split("::")[2].split(":")[-1] in NEVER_REPLACED
    ]
    assert lost == []
    assert any(step["op"] == "update" and step["urn"].endswith("StatefulSet::cpu") for step in plan["steps"])
