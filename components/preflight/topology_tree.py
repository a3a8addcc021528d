"""Shows the declared topologies at preview, each as a tree."""

import pulumi

from components.config import Config
from components.slurm.conf import topology_yaml


def run(config: Config) -> None:
    """Log the topologies with the node sets in them, if there are any and this is a preview."""
    if pulumi.runtime.is_dry_run() and (lines := topology_yaml.shown(config)):
        pulumi.log.info("\n".join(lines))
