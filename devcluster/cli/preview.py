"""`preview`: Pulumi's own engine previews a tracked stack file without any Kubernetes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import yaml

from devcluster.machine.bootstrap import CHECKOUT
from devcluster.machine.progress import StepFailed, say
from devcluster.node import toolchain
from devcluster.stacks.stack import Stack

DEADLINE_SECONDS = 300
NOBODY_ANSWERS = "https://127.0.0.1:1"


def preview(file: Path, output: Path | None = None) -> None:
    """Preview a stack as if for the first time, in a backend of its own that is gone afterwards.

    Args:
        file: The stack's file in the checkout, such as Pulumi.gpu.example.yaml or examples/Pulumi.odyssey.yaml.
        output: File for Pulumi's JSON output; None prints readable text.

    Raises:
        StepFailed: There is no such file, or the preview fails, as for a wrong configuration.
    """
    name = file.name.removeprefix("Pulumi.").removesuffix(".yaml")
    if file.name != f"Pulumi.{name}.yaml" or file.is_absolute() or not (CHECKOUT / file).exists():
        raise StepFailed(f"there is no stack file {file} in this checkout")
    binaries = toolchain.build_pulumi()
    with tempfile.TemporaryDirectory(prefix="pulumi-slurm-preview-") as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(unreachable_kubeconfig()))
        stack = Stack(Path(folder) / "stack", binaries, kubeconfig, name, tracked=CHECKOUT / file)
        stack.prepare()
        stack.write_config({})
        if output is None:
            stack.run("preview", "--non-interactive", deadline_seconds=DEADLINE_SECONDS)
            return
        shown = stack.run("preview", "--non-interactive", "--json", capture=True, deadline_seconds=DEADLINE_SECONDS)
    output.write_text(shown)
    say(f"preview of {file.name}: {output}")


def unreachable_kubeconfig() -> dict[str, object]:
    """Return a kubeconfig of a cluster that refuses every connection.

    Without it, a preview in a pod would find the pod's own Kubernetes.
    """
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "none", "cluster": {"server": NOBODY_ANSWERS}}],
        "users": [{"name": "none", "user": {}}],
        "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
        "current-context": "none",
    }
