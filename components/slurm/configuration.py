"""The desired configuration of Slurm."""

from components.config import Config
from components.kubernetes.component import Part
from components.kubernetes.manifest import Manifest, declared
from components.slurm import site_scripts
from components.slurm.conf import slurm_conf
from contract import names


def manifests(config: Config) -> list[Manifest]:
    """Return ConfigMaps: the desired files, which the operator copies to the active one, and the site's scripts."""
    data = slurm_conf.files(config)
    return [
        Manifest(declared(config, "v1", "ConfigMap", names.CONFIG_WANTED, "configuration", {"data": data})),
        *site_scripts.manifests(config),
    ]


class Configuration(Part, manifests=manifests, outputs=lambda _: {"configMap": names.CONFIG_WANTED}):
    """Slurm's configuration files as they should be, and the scripts of the site.

    It reads `slurm`, `nodeSets`, `partitions` and `cluster`.
    """
