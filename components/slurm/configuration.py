"""The desired configuration of Slurm."""

from components.config import Config
from components.kubernetes.component import Part
from components.kubernetes.manifest import Manifest, declared
from components.slurm import slurm_conf
from contract import names


def manifests(config: Config) -> list[Manifest]:
    """Return the ConfigMap with the desired files. The operator copies them to the active one."""
    data = slurm_conf.files(config)
    return [
        Manifest(declared(config, "v1", "ConfigMap", names.CONFIG_WANTED, "configuration", {"data": data})),
    ]


class Configuration(Part, manifests=manifests, outputs=lambda _: {"configMap": names.CONFIG_WANTED}):
    """Slurm's configuration files as they should be.

    It reads `slurm`, `nodeSets`, `partitions` and `cluster`.
    """
