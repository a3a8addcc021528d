"""The slurm image's entry point: python3 -m slurm_node ROLE."""

import importlib
import sys
from collections.abc import Callable

from slurm_node.pod.log import NodeError, say

ROLES = {
    "controller": "roles.controller:main",
    "accounting": "roles.accounting:main",
    "rehearsal": "roles.config_dry_run:main",
    "rest": "roles.rest:main",
    "proxy": "roles.proxy:main",
    "worker": "roles.worker:main",
    "login": "roles.login:main",
    "roots-controller": "roles.roots_controller:main",
    "driver": "jail.driver:main",
    "fetch": "slurm.configuration:main",
    "populate": "roles.populate:main",
    "directory": "roles.ldap:main",
}
"""Role → module and function. Only the chosen module is imported."""


def main() -> int:
    """Runs the role named by the first argument."""
    try:
        if len(sys.argv) in (2, 3) and sys.argv[1] == "report":
            return _find("roots.root_report:main")(*sys.argv[2:])
        if len(sys.argv) != 2 or sys.argv[1] not in ROLES:
            say(f"usage: slurm_node {' | '.join(ROLES)} | report [REVISION]")
            return 2
        return _find(ROLES[sys.argv[1]])()
    except NodeError as error:
        say(f"error: {error}")
        return 1


def _find(place: str) -> Callable[..., int]:
    module, _, function = place.partition(":")
    role: Callable[..., int] = getattr(importlib.import_module(f"slurm_node.{module}"), function)
    return role


if __name__ == "__main__":
    sys.exit(main())
