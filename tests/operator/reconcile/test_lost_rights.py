"""Promises of an operator that lost one of its rights: it stops what needs that right, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pytest
from slurm_operator import handlers, health
from slurm_operator.clients.kubernetes import KubernetesError, Object
from slurm_operator.clients.lease import Lease

from components.control import operator as program
from contract import names
from tests.operator.worlds.slow_world import Objects, SlowWorld, VirtualLoop, at_once, passes

_T = TypeVar("_T")
Rule = Mapping[str, Any]

RULES: Sequence[Rule] = program.rules(
    {
        ("apps/v1", "Deployment", "slurm-rest"),
        ("apps/v1", "StatefulSet", "cpu"),
        ("v1", "ConfigMap", names.CONFIG_WANTED),
        ("v1", "Secret", "slurm-keys"),
    }
)


def title(rule: Rule) -> str:
    of = f" named {' '.join(rule['resourceNames'])}" if "resourceNames" in rule else ""
    return f"{' '.join(rule['verbs'])}: {' '.join(rule['resources'])}{of}"


NEEDED = {
    "get list watch: slurmclusters nodesets": "they say what is wanted",
    "get list watch patch delete: statefulsets": "their size is what grows",
    "get list watch patch delete: pods": "an operator that sees no pods would take every node for lost",
    "create: leases": "two operators could act at once",
    f"get update delete: leases named {names.LEASE}": "two operators could act at once",
}
"""Rights without which no node set grows, and why."""


class Ruled(Objects):
    """An API server that refuses what no rule grants."""

    def __init__(self, clock: Callable[[], float], rules: Sequence[Rule]) -> None:
        super().__init__(clock)
        self.rules = rules

    def _ask(self, verb: str, api: str, resource: str, name: str = "") -> None:
        group = api.rpartition("/")[0]
        for rule in self.rules:
            is_about = group in rule["apiGroups"] and resource in rule["resources"] and verb in rule["verbs"]
            if is_about and name in rule.get("resourceNames", [name]):
                return
        raise KubernetesError(403, f"may not {verb} {resource} {name}".rstrip())

    async def list_as(self, read: Callable[[Object], _T], api: str, plural: str, selector: str = "") -> Sequence[_T]:
        self._ask("list", api, plural)
        return await super().list_as(read, api, plural, selector)

    async def pages(self, api: str, plural: str, params: dict[str, str]) -> AsyncIterator[tuple[str, Iterator[Object]]]:
        self._ask("list", api, plural)
        async for page in super().pages(api, plural, params):
            yield page

    async def get(self, api: str, plural: str, name: str) -> Object | None:
        self._ask("get", api, plural, name)
        return await super().get(api, plural, name)

    async def create(self, api: str, plural: str, body: Object) -> Object:
        self._ask("create", api, plural)
        return await super().create(api, plural, body)

    async def merge(self, api: str, plural: str, name: str, change: Object) -> Object:
        self._ask("patch", api, plural, name)
        return await super().merge(api, plural, name, change)

    async def replace(self, api: str, plural: str, body: Object) -> Object:
        self._ask("update", api, plural, body["metadata"]["name"])
        return await super().replace(api, plural, body)

    async def apply(
        self, api: str, plural: str, body: Object, subresource: str = "", manager: str = names.OPERATOR_FIELD_MANAGER
    ) -> Object:
        resource = f"{plural}/{subresource}" if subresource else plural
        self._ask("patch", api, resource, body["metadata"]["name"])
        return await super().apply(api, plural, body, subresource, manager)

    async def delete(
        self, api: str, plural: str, name: str, preconditions: Mapping[str, str], *, orphan: bool = False
    ) -> bool:
        self._ask("delete", api, plural, name)
        return await super().delete(api, plural, name, preconditions)


def grown(rules: Sequence[Rule]) -> SlowWorld:
    """Return a world whose node set was to grow to two for a minute, under an operator with these rights."""

    async def work(loop: VirtualLoop) -> SlowWorld:
        api = Ruled(loop.time, rules)
        lease = Lease(api, "one", loop.time)
        world = SlowWorld(loop, {"cpu": 1}, 0.1, api, lease)
        world.scale("cpu", 2)
        leading = asyncio.create_task(handlers._keep_lease(lease, health.Progress(), lambda: None))
        await passes(world, 1)
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)
        return world

    return at_once(work)


def degraded(world: SlowWorld) -> str:
    conditions = world.api.there[names.SLURM_CLUSTERS, "test"]["status"]["conditions"]
    return next(str(each["message"]) for each in conditions if each["type"] == "Degraded")


def test_with_all_of_its_rights_nothing_is_wrong() -> None:
    world = grown(RULES)
    assert (world.size("cpu"), degraded(world)) == (2, "nothing is wrong")


@pytest.mark.parametrize("lost", RULES, ids=title)
def test_a_node_set_grows_unless_the_lost_right_is_needed_for_that(lost: Rule) -> None:
    world = grown([rule for rule in RULES if rule is not lost])
    assert (world.size("cpu") == 2) is (title(lost) not in NEEDED)


def test_each_right_that_is_needed_exists() -> None:
    assert {title(rule) for rule in RULES} >= NEEDED.keys()


@pytest.mark.parametrize(
    ("resource", "words"),
    [
        ("deployments", "slurmrestd's Deployment can't be read"),
        ("configmaps", "the configuration can't be read"),
        ("secrets", "the ledger can't be read"),
        ("events", "Events can't be read, so that nobody is told why Kubernetes makes no pod"),
        ("nodesets/status", "WriteStatus: may not patch nodesets/status cpu"),
    ],
)
def test_what_a_lost_right_stops_is_told(resource: str, words: str) -> None:
    def without(rule: Rule) -> Rule:
        return {**rule, "resources": [each for each in rule["resources"] if each != resource]}

    world = grown([without(rule) for rule in RULES])
    assert world.size("cpu") == 2
    assert words in degraded(world)
