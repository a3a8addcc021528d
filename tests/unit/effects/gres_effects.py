"""Fields of GPUs and other generic resources, each with its effect on what is declared."""

from __future__ import annotations

from typing import Any, Final

from components.config import Config
from components.slurm.conf import gres_conf
from tests.unit.effects.declared import Effect, requests, variable

_NODES: Final = "NodeName=cpu-[0-9999]"
CAPS: Final = "/dev/nvidia-caps/nvidia-cap"
MIG: Final = {
    "type": "1g.10gb",
    "perNode": 3,
    "resource": "nvidia.com/mig-1g.10gb",
    "multipleFiles": [f"/dev/nvidia0,{CAPS}[21-22]", f"/dev/nvidia0,{CAPS}[30-31]", f"/dev/nvidia1,{CAPS}[156-157]"],
}
FPGA: Final = {"name": "fpga", "type": "u280", "perNode": 2, "devices": "/dev/fpga[0-1]", "resource": "x.com/fpga"}


def gres(config: Config) -> Any:
    """Resources that slurmd of the workers registers."""
    return variable(config, "StatefulSet", "cpu", "SLURM_NODE")["gres"]


def lines(config: Config) -> list[str]:
    """Lines of gres.conf."""
    return gres_conf.text(config).splitlines()


EFFECTS: Final[list[Effect]] = [
    ("nodeSets.0.gpus.shards", 64, gres, "gpu:h100:2,shard:64"),
    ("nodeSets.0.gpus.mps", 400, gres, "gpu:h100:2,mps:400"),
    ("nodeSets.0.gpus.mps", 48, gres, "gpu:h100:2,mps:48"),
    ("nodeSets.0.gpus.type", "a100-sxm4-80gb", gres, "gpu:a100-sxm4-80gb:2"),
    (
        "nodeSets.0.gpus",
        {**MIG, "runtimeClass": "none"},
        lines,
        [
            *(f"{_NODES} AutoDetect=off Name=gpu Type=1g.10gb MultipleFiles={files}" for files in MIG["multipleFiles"]),
            "AutoDetect=off",
        ],
    ),
    ("nodeSets.0.gpus.more", [{"type": "l40s", "perNode": 4}], gres, "gpu:h100:2,gpu:l40s:4"),
    ("nodeSets.0.gpus.more", [{"type": "l40s", "perNode": 4}], requests("StatefulSet", "cpu", "nvidia.com/gpu"), "6"),
    (
        "nodeSets.0.gpus",
        {"type": "mi300", "perNode": 2, "devices": "/dev/dri/renderD[128-129]", "more": [MIG]},
        requests("StatefulSet", "cpu", "nvidia.com/mig-1g.10gb"),
        "3",
    ),
    (
        "nodeSets.0.gpus",
        {
            "type": "mi300", "perNode": 2, "devices": "/dev/dri/renderD[128-129]",
            "more": [{"type": "mi210", "perNode": 1, "devices": "/dev/dri/renderD130"}],
        },
        lines,
        [
            f"{_NODES} AutoDetect=off Name=gpu Type=mi300 File=/dev/dri/renderD[128-129]",
            f"{_NODES} AutoDetect=off Name=gpu Type=mi210 File=/dev/dri/renderD130",
            "AutoDetect=off",
        ],
    ),
    (
        "nodeSets.0.gpus",
        {
            "type": "h100", "perNode": 2, "devices": "/dev/nvidia[0-1]",
            "cores": {"/dev/nvidia0": "0", "/dev/nvidia1": "0"},
        },
        lines,
        [
            f"{_NODES} AutoDetect=off Name=gpu Type=h100 File=/dev/nvidia0 Cores=0",
            f"{_NODES} AutoDetect=off Name=gpu Type=h100 File=/dev/nvidia1 Cores=0",
            "AutoDetect=off",
        ],
    ),
    ("nodeSets.0.gres", [FPGA, {"name": "bandwidth", "perNode": 4096}], gres, "fpga:u280:2,bandwidth:4096"),
    (
        "nodeSets.0.gres",
        [FPGA, {"name": "bandwidth", "perNode": 4096}],
        lines,
        [f"{_NODES} Name=fpga Type=u280 File=/dev/fpga[0-1]", "AutoDetect=off"],
    ),
    ("nodeSets.0.gres", [FPGA], requests("StatefulSet", "cpu", "x.com/fpga"), "2"),
]  # fmt: skip

PATHS: Final = {
    *(f"nodeSets.gpus.more.{key}" for key in ("type", "perNode", "resource", "devices", "multipleFiles", "cores")),
    *(f"nodeSets.gres.{key}" for key in ("name", "type", "perNode", "devices", "resource")),
    "nodeSets.gpus.multipleFiles",
    "nodeSets.gpus.cores",
}
"""Fields of the rows that the effects above set together."""
