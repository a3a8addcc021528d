"""The dev stack as an older program left it, in a backend of its own; no Kubernetes is reached."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

import yaml

from devcluster.cli.preview import unreachable_kubeconfig
from devcluster.machine import go_programs
from devcluster.machine.bootstrap import CHECKOUT

RECORDED = Path(__file__).parent / "recorded"
STATES = sorted(file.name for file in RECORDED.glob("*.json"))
FACTS = {
    "pulumi-slurm:images": {
        "slurm": "localhost/slurm:0123456789abcdef",
        "operator": "localhost/op:0123456789abcdef",
        "database": "localhost/db:0123456789abcdef",
    },
    "pulumi-slurm:jail": {"image": "localhost/jail:0123456789abcdef"},
}


class RecordedStack:
    """A stack with a recorded state.

    Args:
        folder: For all its files.
        binaries: The folder with Pulumi.
        python: The folder with the `python3` of programs and stand-in.
        state: The name of the recorded state.

    Attributes:
        environment: What Pulumi's engine and the program need, with a cluster that refuses every connection.
        config_file: The stack's file.
        recorded: URNs of the state.
    """

    def __init__(self, folder: Path, binaries: Path, python: Path, state: str) -> None:
        self.config_file = folder / "Pulumi.dev.yaml"
        self._binaries = binaries
        (folder / "Pulumi.yaml").write_text("name: pulumi-slurm\nruntime: python\n")
        (folder / "kubeconfig").write_text(yaml.safe_dump(unreachable_kubeconfig()))
        stand_in = CHECKOUT / "devcluster/standin/bin"
        self.environment = {
            **go_programs.ENVIRONMENT,
            "PATH": f"{stand_in}:{python}:{Path(sys.executable).parent}:{binaries}:{os.environ['PATH']}",
            "PULUMI_STANDIN_PYTHON": str(python / "python3"),
            "HOME": str(folder), "PULUMI_HOME": str(folder / "home"), "PULUMI_BACKEND_URL": f"file://{folder}",
            "PULUMI_CONFIG_PASSPHRASE": secrets.token_hex(8), "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_STACK": "dev", "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "KUBECONFIG": str(folder / "kubeconfig"),
        }  # fmt: skip
        self.pulumi("-C", str(folder), "stack", "init", "dev")
        salted = yaml.safe_load(self.config_file.read_text())
        old = json.loads((RECORDED / state).read_text())
        self.recorded = {resource["urn"] for resource in old["deployment"]["resources"]}
        old["deployment"]["secrets_providers"] = {"type": "passphrase", "state": {"salt": salted["encryptionsalt"]}}
        (folder / "state.json").write_text(json.dumps(old))
        self.pulumi("-C", str(folder), "stack", "import", "--file", str(folder / "state.json"))
        config = yaml.safe_load((CHECKOUT / "Pulumi.dev.yaml").read_text())["config"]
        merged = {**config, **{key: {**config.get(key, {}), **facts} for key, facts in FACTS.items()}}
        self.config_file.write_text(yaml.safe_dump({**salted, "config": merged}))

    def pulumi(self, *arguments: str) -> str:
        """Run Pulumi in the checkout and return what it printed."""
        done = subprocess.run(
            [self._binaries / "pulumi", *arguments, "--non-interactive"], cwd=CHECKOUT, env=self.environment,
            capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
