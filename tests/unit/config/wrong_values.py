"""All wrong values of the configuration: where each stands, and what is said of it."""

from __future__ import annotations

from tests.unit.config.wrong_health import WRONG_HEALTH
from tests.unit.config.wrong_nodes import WRONG_NODES
from tests.unit.config.wrong_options import WRONG_OPTIONS
from tests.unit.config.wrong_partitions import WRONG_PARTITIONS
from tests.unit.config.wrong_services import WRONG_SERVICES

WRONG_VALUES = [*WRONG_NODES, *WRONG_PARTITIONS, *WRONG_HEALTH, *WRONG_SERVICES, *WRONG_OPTIONS]
