"""A small cluster of a configuration, which is rendered here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from components.config import parse
from components.slurm import site_scripts
from components.slurm.conf import slurm_conf
from components.slurm.node_set import node_variable
from contract.pod_variables import NodeKey
from tests.image.rendered_cluster import ALICE, Rendered, RenderedCluster
from tests.unit.samples import SMALL, changed

__all__ = ["ALICE", "NewCluster", "SmallCluster", "render"]

_OF_THE_SET = (NodeKey.GRES, NodeKey.GRES_WITH_FILES, NodeKey.DIVIDED_GPUS, NodeKey.OPTIONS)


def render(
    slurm: Mapping[str, object],
    node_set: Mapping[str, object] | None = None,
    partitions: Sequence[Mapping[str, object]] = (),
    accounting: Mapping[str, object] | None = None,
) -> Rendered:
    """Return what the program makes of a small configuration with more of Slurm, of workers, partitions, accounting."""
    workers = {**SMALL["nodeSets"][0], **(node_set or {})}
    raw = changed("slurm", slurm, changed("accounting", accounting or {"mode": "off"}, SMALL))
    raw = changed("nodeSets.0", workers, raw)
    if partitions:
        raw = changed("partitions", partitions, raw)
    config = parse(raw)
    declared = node_variable(config, config.node_sets[0])
    processes = workers["resources"].get("processes")
    return Rendered(
        files=slurm_conf.files(config),
        scripts={place: site_scripts.data(config.slurm.scripts, kinds) for place, kinds in site_scripts.PLACES.items()},
        node={
            **({NodeKey.PROCESSES: processes} if processes else {}),
            **{key: value for key, value in declared.items() if key in _OF_THE_SET},
        },
    )


class SmallCluster(RenderedCluster):
    """slurmctld and one worker, whose jobs have the root at ``root``. As a context it ends all of its pods.

    Args:
        image: the slurm image's root.
        root: is moved to the jail's volume.
        folder: the volume and all else lies in it.
        volumes: pod → its own mount of the volume; the folder ``volume`` itself for others.
        slurm: what the configuration says besides of Slurm.
        groups: folder of a cgroup v2 hierarchy in which each pod gets a group and a cgroup namespace of its own.
        node_set: what the configuration says besides of the workers.
        partitions: what the configuration says of partitions.
        accounting: what it says of accounting; slurmdbd has to answer as `slurm-accounting`, at the common address.
        as_in_kubernetes: gives workers and logins only the capabilities of components/pods/pod_security.py.
    """

    def __init__(
        self,
        image: Path,
        root: Path,
        folder: Path,
        volumes: Mapping[str, Path] | None = None,
        slurm: Mapping[str, object] | None = None,
        groups: Path | None = None,
        node_set: Mapping[str, object] | None = None,
        partitions: Sequence[Mapping[str, object]] = (),
        accounting: Mapping[str, object] | None = None,
        as_in_kubernetes: bool = False,
    ) -> None:
        wanted = {"cgroupPlugin": "cgroup/v2" if groups else "disabled", **(slurm or {})}
        rendered = render(wanted, node_set, partitions, accounting)
        super().__init__(image, root, folder, rendered, volumes, groups, as_in_kubernetes)


NewCluster = Callable[..., AbstractContextManager[SmallCluster]]
"""Type of the fixture new_cluster: it is called with the name of a root and options of SmallCluster."""
