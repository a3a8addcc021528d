"""A small cluster (tests/image) whose worker has this machine's GPUs, in groups of cgroup v2."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from tests.gpu import toolkit
from tests.image.rendered_cluster import Rendered, RenderedCluster

TYPE = "gputype"
"""Stands for the type in what was rendered before."""
_DECLARED = re.compile(rf"\bgpu:{TYPE}:1\b")


def type_of(product: str) -> str:
    """Returns the type that an administrator would declare for a product (docs/gpus.md): h200 of NVIDIA H200."""
    return product.lower().removeprefix("nvidia ").replace(" ", "_")


def with_gpus(rendered: Rendered, kind: str, count: int) -> Rendered:
    """Returns what was rendered, for workers with so many GPUs of a type."""
    node = json.loads(_DECLARED.sub(f"gpu:{kind}:{count}", json.dumps(rendered.node)))
    assert node != rendered.node, rendered.node
    return Rendered(rendered.files, rendered.scripts, node)


class GpuCluster(RenderedCluster):
    """A worker with all GPUs of this machine, by NVIDIA's container toolkit.

    Args:
        image: as for RenderedCluster.
        root: the same.
        folder: the same.
        rendered: the same.
        groups: hands all controllers down.
        specification: of the toolkit.
    """

    memory_mib = 16_384
    """CUDA takes some hundred MiB of the machine's memory, and tools more."""

    def __init__(
        self, image: Path, root: Path, folder: Path, rendered: Rendered, groups: Path, specification: Path
    ) -> None:
        furnish = shlex.join([sys.executable, "-S", toolkit.__file__, str(specification)])
        super().__init__(image, root, folder, rendered, groups=groups, before=f'{furnish} "$POD"')


NewGpuCluster = Callable[[str], AbstractContextManager[GpuCluster]]
"""Type of the fixture new_cluster: it is called with the name of a configuration of rendered.py."""
