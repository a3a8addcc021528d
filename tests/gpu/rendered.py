"""Files of the program for tests of GPUs: `python -m tests.gpu.rendered FILE` writes them as JSON.

A machine with GPUs may lack the program's packages, so a bundle brings this file. The type and number of GPUs are put
in where the tests run.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

from components.config.nodes.long_checks import LongCheck
from components.control.long_checks import script
from tests.gpu.gpu_cluster import TYPE
from tests.image.small_cluster import render

LONG_CHECKS = {
    "all-reduce": {"least": 1, "timeLimit": "2m"},
    "nvbandwidth": {"least": 1, "timeLimit": "2m"},
    "gpu-burn": {"timeLimit": "2m"},
}
"""With thresholds of their own: those of a product are about eight GPUs."""
CLUSTERS = {"whole": {}, "shards": {"shards": 4}}
"""Further fields of `gpus`, for each cluster."""


def main(file: Path) -> None:
    """Writes it."""
    slurm = {"cgroupPlugin": "cgroup/v2", "constrainCores": True}
    clusters = {
        name: dataclasses.asdict(render(slurm, {"gpus": {"type": TYPE, "perNode": 1, **wanted}}))
        for name, wanted in CLUSTERS.items()
    }
    scripts = {
        builtin: script(LongCheck.model_validate({"name": "a", "partition": "main", "builtin": builtin, **wanted}))
        for builtin, wanted in LONG_CHECKS.items()
    }
    file.write_text(json.dumps({"clusters": clusters, "long_checks": scripts}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
