"""Leaves out the lines of gres.conf whose devices this pod lacks: slurmd ends when one of its files is missing.

gres.conf changes for all nodes of a set at once. A pod gets further devices only when it is made anew, after its jobs
have ended. Until then slurmd must run on, or slurmctld would take its jobs from it.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from node_health.checks.slurm.gres import files_of

from contract import names
from slurm_node.pod.log import say

LEFT_OUT = "# The pod lacks"


def only_present(
    files: Mapping[str, str], node_set: str, exists: Callable[[str], bool] = lambda file: Path(file).exists()
) -> dict[str, str]:
    """Returns Slurm's files, with the lines for this node that name a missing device as comments.

    Args:
        files: name → text.
        node_set: the node's set; lines for others are never read here.
        exists: says whether there is a file.
    """
    lines = files.get(names.GRES_CONF, "").splitlines()
    for index, line in enumerate(lines):
        if not re.match(rf"NodeName={re.escape(node_set)}-\[", line):
            continue
        if lacking := next((file for file in files_of(line) if not exists(file)), None):
            lines[index] = f"{LEFT_OUT} {lacking}: {line}"
            say(f"gres.conf names {lacking}, which this pod lacks: slurmd runs on without that line")
    return {**files, **({names.GRES_CONF: "\n".join([*lines, ""])} if lines else {})}
