"""Keys of slurm.conf whose change costs jobs, or takes more than a reconfigure.

Since 23.11 daemons read their files by starting themselves anew (scontrol(1), reconfigure). So every other key takes
effect under running jobs. Only their sockets live on, and slurmctld's record of what a node has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from contract import names
from contract.slurm_conf import WORKER_START

COSTS: Final[Mapping[str, str]] = {
    # scontrol(1), reconfigure: it can't change listening ports or the mechanism of authentication.
    "slurmctldport": "daemons keep the port that they listen on until their pods are new",
    "slurmdport": "daemons keep the port that they listen on until their pods are new",
    # slurm.conf(5), AuthType: all daemons end before, and no job may run.
    "authtype": "steps of the old kind can't finish, and daemons change only when their pods are new",
    "credtype": "steps of the old kind can't finish, and daemons change only when their pods are new",
    # slurm.conf(5), SelectType: all job information is lost.
    "selecttype": "slurmctld forgets all jobs",
    # slurm.conf(5), SwitchType: records of all jobs may be lost.
    "switchtype": "slurmctld may forget all jobs",
}
"""Key in lower case → what happens to jobs when it changes."""

CONTROLLER_START: Final = frozenset({"noctldinaddrany", "enableipv6", "disableipv4"})
"""Words of CommunicationParameters that say how slurmctld listens (slurm.conf(5)): it keeps its socket otherwise."""

_SETTING = re.compile(r"^[ \t]*(\w+)[ \t]*=[ \t]*([^\s#]*)", re.MULTILINE)


def costly(active: Mapping[str, str], wanted: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys of COSTS whose values differ between the active and the wanted files."""
    before, after = _settings(active), _settings(wanted)
    return tuple(sorted(key for key in COSTS if before.get(key) != after.get(key)))


def words(value: str) -> frozenset[str]:
    """Return the words of a list, as Slurm compares them."""
    return frozenset(value.lower().split(",")) - {""}


def controller_start(files: Mapping[str, str]) -> frozenset[str]:
    """Return the words of files that slurmctld takes only by a restart."""
    return words(_settings(files).get("communicationparameters", "")) & CONTROLLER_START


def worker_start(files: Mapping[str, str]) -> frozenset[str]:
    """Return the words of files that workers take only with a new pod."""
    settings = _settings(files)
    return frozenset(word for key, taken in WORKER_START.items() for word in words(settings.get(key, "")) & taken)


def _settings(files: Mapping[str, str]) -> dict[str, str]:
    return {key.lower(): value.lower() for key, value in _SETTING.findall(files.get(names.SLURM_CONF, ""))}
