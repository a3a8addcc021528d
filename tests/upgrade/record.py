"""Makes tests/upgrade/recorded/STATE.json out of a stack's export: what must never be replaced, and nothing secret.

python3 -m devcluster pulumi -- stack export --show-secrets | .venv/bin/python tests/upgrade/record.py > …/v0.1.json

With `--over FILE` it reads `pulumi preview --json --show-sames` of a recorded stack, and writes what its update leaves.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

KEPT_KINDS = ("Keys", "ClaimGuard", "PersistentVolumeClaim", "StatefulSet", "Namespace", "NodeSet", "SlurmCluster")
SECRET = "4dabf18193072939515e22adb298388d"
"""Pulumi's signature of special values; a secret has it beside `plaintext`."""

UNKNOWN = ("[secret]", "04da6b54-80e4-46f7-96ec-b56ff0331ba9")
"""Words of a preview for a secret, and for a value that it does not know."""


def main() -> None:
    state = json.load(sys.stdin)
    if sys.argv[1:2] == ["--over"]:
        state = updated(json.loads(Path(sys.argv[2]).read_text()), state["steps"])
    resources = [each for each in state["deployment"]["resources"] if is_kept(each)]
    names = {each["urn"] for each in resources}
    for each in resources:
        prune(each, names)
    state["deployment"].pop("secrets_providers", None)
    state["deployment"]["resources"] = [without_secrets(each) for each in resources]
    json.dump(state, sys.stdout, indent=1)
    sys.stdout.write("\n")


def updated(old: dict[str, Any], steps: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the state after an update that changes a recorded one by these steps of its preview."""
    before = {each["urn"]: each for each in old["deployment"]["resources"]}
    resources = []
    for step in steps:
        if "newState" not in step:
            continue
        new, was = step["newState"], before.get(step["urn"], {})
        inputs = new.get("inputs", {})
        if new["custom"]:
            where = [inputs["metadata"][key] for key in ("namespace", "name") if key in inputs.get("metadata", {})]
            new["id"] = was.get("id") or "/".join(where) or "recorded"
            new["outputs"] = {**was.get("outputs", {}), **inputs}
            if new["type"].startswith("kubernetes:"):
                # The provider compares with these.
                new["outputs"] |= {"__inputs": inputs, "__initialApiVersion": inputs["apiVersion"]}
        elif "outputs" in was:
            new["outputs"] = was["outputs"]
        resources.append(new)
    # A preview has no step for Pulumi's default providers.
    stepped = {step["urn"] for step in steps}
    hidden = [
        each for urn, each in before.items() if urn not in stepped and each["type"].startswith("pulumi:providers")
    ]
    ordered = [resources[0], *hidden, *resources[1:]]
    return {**old, "deployment": {**old["deployment"], "resources": ordered}}


def is_kept(resource: dict[str, Any]) -> bool:
    kind: str = resource["type"]
    return kind.startswith(("pulumi:", "pulumi-slurm:index:")) or kind.split(":")[-1] in KEPT_KINDS


def prune(resource: dict[str, Any], names: set[str]) -> None:
    """Remove from a state what depends on files outside of it, and what tells of the machine that made it."""
    for of_the_machine in ("sourcePosition", "stackTrace", "created", "modified"):
        resource.pop(of_the_machine, None)
    for values in (resource.get("inputs", {}), resource.get("outputs", {})):
        if "kubeconfig" in values:
            values["kubeconfig"] = "recorded"
    if "dependencies" in resource:
        resource["dependencies"] = [urn for urn in resource["dependencies"] if urn in names]
    for key, urns in resource.get("propertyDependencies", {}).items():
        resource["propertyDependencies"][key] = [urn for urn in urns or [] if urn in names]


def without_secrets(value: Any) -> Any:
    if value in UNKNOWN:
        return "recorded"
    if isinstance(value, dict):
        if SECRET in value and "plaintext" in value:
            return {**value, "plaintext": json.dumps(blanked(json.loads(value["plaintext"])))}
        return {key: without_secrets(each) for key, each in value.items()}
    if isinstance(value, list):
        return [without_secrets(each) for each in value]
    return value


def blanked(value: Any) -> Any:
    """The same shape with nothing in it."""
    if isinstance(value, dict):
        return {key: blanked(each) for key, each in value.items()}
    if isinstance(value, list):
        return [blanked(each) for each in value]
    return "recorded" if isinstance(value, str) else value


if __name__ == "__main__":
    main()
