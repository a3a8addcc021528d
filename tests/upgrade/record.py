"""Makes tests/upgrade/recorded/STATE.json out of a stack's export: what must never be replaced, and nothing secret.

python3 -m devcluster pulumi -- stack export --show-secrets | .venv/bin/python tests/upgrade/record.py > …/v0.1.json
"""

from __future__ import annotations

import json
import sys
from typing import Any

KEPT_KINDS = ("Keys", "ClaimGuard", "PersistentVolumeClaim", "StatefulSet", "Namespace", "NodeSet", "SlurmCluster")
SECRET = "4dabf18193072939515e22adb298388d"
"""Pulumi's signature of special values; a secret has it beside `plaintext`."""


def main() -> None:
    state = json.load(sys.stdin)
    resources = [each for each in state["deployment"]["resources"] if is_kept(each)]
    names = {each["urn"] for each in resources}
    for each in resources:
        prune(each, names)
    state["deployment"].pop("secrets_providers", None)
    state["deployment"]["resources"] = [without_secrets(each) for each in resources]
    json.dump(state, sys.stdout, indent=1)
    sys.stdout.write("\n")


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
