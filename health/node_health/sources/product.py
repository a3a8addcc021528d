"""The product of the machine's GPUs, without a question to the driver's library."""

import re

from node_health.check import CannotJudgeError, Machine

FOLDER = "/proc/driver/nvidia/gpus"
_MODEL = re.compile(r"^Model:\s+(.+?)\s*$", re.MULTILINE)


def look(machine: Machine) -> str:
    """Returns the product's name.

    Raises:
        CannotJudgeError: the driver shows none.
    """
    for file in sorted(machine.path(FOLDER).glob("*/information")):
        if model := _MODEL.search(file.read_text()):
            return model[1]
    raise CannotJudgeError("the machine has no GPU whose product would tell the rate")
