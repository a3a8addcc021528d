"""A second stack on the Kubernetes of the first, with a namespace, a door and a backend of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
from collections.abc import Iterator
from typing import Any

import yaml

from devcluster.stacks.stack import Stack
from tests.e2e.declared import external_database

NAMESPACE = "second"
SSH_PORT = 30023


def accounting(database: str) -> dict[str, Any]:
    """The config of accounting in a database of the server that is not ours."""
    external = {"connection": external_database.connection(database)}
    return {"mode": "external", "resources": {"cpu": "20m", "memory": "128Mi"}, "external": external}


@dataclasses.dataclass(frozen=True)
class SecondStack:
    """The second stack and what its config starts from."""

    stack: Stack
    facts: dict[str, Any]

    @classmethod
    def beside(cls, slurm: Any) -> SecondStack:
        """Of one small node, with the images and the jail of the first stack."""
        first = slurm.cluster
        stack = Stack(first.instance.state / "second-stack", first.binaries, first.kubeconfig)
        stack.prepare()
        config = json.loads(slurm.pulumi("config", "--json", "--show-secrets").ok())
        facts = {key.partition(":")[2]: item.get("objectValue", item["value"]) for key, item in config.items()}
        facts["cluster"] = {"name": "second", "namespace": NAMESPACE}
        facts["login"]["service"] = {"type": "NodePort", "nodePort": SSH_PORT}
        facts["nodeSets"] = [{**facts["nodeSets"][0], "name": "tiny", "replicas": 1}]
        facts["partitions"] = [{"name": "main", "nodeSets": ["tiny"], "default": True}]
        facts["accounting"] = accounting(external_database.DATABASES[0])
        return cls(stack, facts)

    def up(self, **changes: object) -> str:
        """`pulumi up` with changed config keys; the engine's whole output."""
        self.stack.write_config({})
        written = yaml.safe_load(self.stack.config_file.read_text())
        # Written whole: what the tracked config says of the first stack's own database is not to be in it.
        written["config"] |= {f"pulumi-slurm:{key}": value for key, value in {**self.facts, **changes}.items()}
        self.stack.config_file.write_text(yaml.safe_dump(written, sort_keys=False))
        return self.stack.run("up", "--yes", "--skip-preview", "--non-interactive", capture=True, deadline_seconds=600)

    @contextlib.contextmanager
    def state_lost(self) -> Iterator[None]:
        """From here on Pulumi has a stack of this name that knows of nothing; after a failure the old one is back."""
        backend = self.stack.folder / "backend"
        kept = backend.rename(backend.with_name("lost-backend"))
        self.stack.prepare()
        try:
            yield
        except BaseException:
            shutil.rmtree(backend)
            kept.rename(backend)
            raise
        shutil.rmtree(kept)

    def destroy(self) -> None:
        """`pulumi destroy`."""
        self.stack.run("destroy", "--yes", "--skip-preview", "--non-interactive", capture=True, deadline_seconds=600)
