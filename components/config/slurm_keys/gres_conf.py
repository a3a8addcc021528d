"""Each key of gres.conf: which key sets it, why this program does, or why nobody does."""

from typing import Final

from components.config.slurm_keys.line_keys import LineKeys

KEYS: Final = LineKeys(
    of="gres.conf",
    at="nodeSets[]",
    typed={
        "Type": "gpus.type",
        "File": "gpus.devices",
        "AutoDetect": "gpus.devices",
        "Cores": "gpus.cores",
        "MultipleFiles": "gpus.multipleFiles",
        "Name": "gres[].name",
    },
    owned={
        "Count": "slurmd counts the device files, and nodeSets[].gpus.perNode says how many there have to be",
        "NodeName": "a line is for all nodes that its set could have, so that scaling changes no file",
    },
    refused={
        "Flags": "AutoDetect sets its maker's variables, and without it Slurm sets every maker's",
        "Links": "it lists the neighbours of one device, and a line here is for all devices of a node",
    },
    allowed=(),
)
