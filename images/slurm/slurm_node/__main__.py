"""The slurm image's entry point: python3 -m slurm_node ROLE."""

import sys

from slurm_node.conditions import ready
from slurm_node.jail import driver
from slurm_node.pod.log import NodeError, say
from slurm_node.roles import (
    accounting,
    controller,
    ldap,
    login,
    populate,
    proxy,
    rehearsal,
    rest,
    roots_controller,
    worker,
)
from slurm_node.roots import root_report
from slurm_node.slurm import configuration

ROLES = {
    "controller": controller.main,
    "accounting": accounting.main,
    "rehearsal": rehearsal.main,
    "rest": rest.main,
    "proxy": proxy.main,
    "worker": worker.main,
    "login": login.main,
    "roots-controller": roots_controller.main,
    "driver": driver.main,
    "fetch": configuration.main,
    "populate": populate.main,
    "directory": ldap.main,
    "ready-accounting": ready.accounting,
    "ready-controller": ready.controller,
    "ready-worker": ready.worker,
    "ready-login": ready.login,
    "ready-directory": ready.directory,
    "ready-rest": ready.rest,
}


def main() -> int:
    """Runs the role named by the first argument."""
    try:
        if len(sys.argv) in (2, 3) and sys.argv[1] == "report":
            return root_report.main(*sys.argv[2:])
        if len(sys.argv) != 2 or sys.argv[1] not in ROLES:
            say(f"usage: slurm_node {' | '.join(ROLES)} | report [REVISION]")
            return 2
        return ROLES[sys.argv[1]]()
    except NodeError as error:
        say(f"error: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
