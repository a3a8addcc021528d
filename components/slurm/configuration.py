"""The wanted configuration of Slurm."""

from collections.abc import Sequence

import pulumi

from components.config import Config
from components.kubernetes.component import Component
from components.kubernetes.manifest import Manifest, declared
from components.slurm import slurm_conf
from contract import names


def manifests(config: Config) -> list[Manifest]:
    """The ConfigMap with the wanted files. The operator makes them the active ones."""
    data = slurm_conf.files(config)
    return [
        Manifest(declared(config, "v1", "ConfigMap", names.CONFIG_WANTED, "configuration", {"data": data})),
    ]


class Configuration(Component):
    """Slurm's configuration files as they should be.

    Args:
        name: Name of the resource in the stack.
        config: The configuration: `slurm`, `nodeSets`, `partitions` and `cluster`.
        depends_on: What is there before, such as the ledger.
        opts: Options of the resource.
    """

    def __init__(
        self,
        name: str,
        config: Config,
        depends_on: Sequence[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(name, opts)
        self.declare(manifests(config), depends_on)
        self.config_map = names.CONFIG_WANTED
        self.register_outputs({"configMap": self.config_map})
