"""Lists of Kubernetes objects, as the API server's schemas have them."""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Iterator
from typing import Any

from tests.manifests.declared_stacks import Server

Body = dict[str, Any]
Steps = tuple[str | int, ...]
"""Keys and indices from an object to a value in it."""


@dataclasses.dataclass(frozen=True)
class Place:
    """A list in a declared object; `keys` make its items unique, None where it is replaced as a whole."""

    owner: tuple[str, str]
    steps: Steps
    keys: tuple[str, ...] | None

    @property
    def sort(self) -> str:
        """The same for lists of the same field, as in `Service spec.ports`."""
        return f"{self.owner[0]} " + ".".join(step for step in self.steps if isinstance(step, str))


class Schemas:
    """The API server's schemas of its kinds."""

    def __init__(self, server: Server) -> None:
        self._documents = functools.cache(lambda path: server.client.get(path).json()["components"]["schemas"])

    def lists(self, body: Body) -> Iterator[Place]:
        """Every list in an object."""
        known, schema = self._schema(body)
        yield from self._within(known, schema, body, identity(body), ())

    def absent(self, body: Body) -> Iterator[tuple[Place, Body, Body]]:
        """Every list that an object of this kind could have beside what it has, with its schema and all schemas."""
        known, schema = self._schema(body)
        pending: list[tuple[Body, Any, Steps]] = [(schema, body, ())]
        while pending:
            schema, value, steps = pending.pop()
            schema = _resolved(known, schema)
            if isinstance(value, list):
                pending += [(schema["items"], item, (*steps, number)) for number, item in enumerate(value)]
            elif isinstance(value, dict):
                fields = {key: _resolved(known, inner) for key, inner in schema.get("properties", {}).items()}
                pending += [(fields[key], inner, (*steps, key)) for key, inner in value.items() if key in fields]
                lists = {key: field for key, field in fields.items() if field.get("type") == "array"}
                for key in sorted(lists.keys() - value.keys()):
                    yield Place(identity(body), (*steps, key), None), lists[key], known

    def _schema(self, body: Body) -> tuple[Body, Body]:
        group, _, version = body["apiVersion"].rpartition("/")
        known = self._documents(f"/openapi/v3/{'apis' if group else 'api'}/{body['apiVersion']}")
        this = {"group": group, "version": version, "kind": body["kind"]}
        return known, next(each for each in known.values() if this in each.get("x-kubernetes-group-version-kind", ()))

    def _within(self, known: Body, schema: Body, value: Any, owner: tuple[str, str], steps: Steps) -> Iterator[Place]:
        schema = _resolved(known, schema)
        if isinstance(value, list):
            keys = schema.get("x-kubernetes-list-map-keys")
            yield Place(owner, steps, tuple(keys) if keys else None)
            for number, item in enumerate(value):
                yield from self._within(known, schema["items"], item, owner, (*steps, number))
        elif isinstance(value, dict):
            others = schema.get("additionalProperties") or {}
            for key, inner in value.items():
                inside = schema.get("properties", {}).get(key, others)
                yield from self._within(known, inside, inner, owner, (*steps, key))


def _resolved(known: Body, schema: Body) -> Body:
    while references := [schema, *schema.get("allOf", ())]:
        reference = next((each["$ref"] for each in references if "$ref" in each), None)
        if reference is None:
            return schema
        said = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
        schema = known[reference.rsplit("/", 1)[1]] | said
    return schema


def identity(body: Body) -> tuple[str, str]:
    return body["kind"], body["metadata"]["name"]


def at(body: Any, steps: Steps) -> Any:
    return functools.reduce(lambda inner, step: inner[step], steps, body)


def sample(known: Body, schema: Body, chance: random.Random) -> Any:
    """Some value of a schema, which the API server may take."""
    schema = _resolved(known, schema)
    match schema.get("type"):
        case "array":
            return [sample(known, schema["items"], chance)]
        case "object":
            fields = schema.get("properties", {})
            needed = {*schema.get("required", ()), "image"}  # Of an image only the validation says that it must be.
            more = {chance.choice(sorted(fields))} if fields else set()
            return {key: sample(known, fields[key], chance) for key in sorted(needed | more) if key in fields}
        case "integer" | "number":
            return chance.randint(1, 9)
        case "boolean":
            return True
    addresses = ["192.0.2.1", "192.0.2.0/24"]
    return chance.choice(schema.get("enum") or ["one", "one", "one", "/one", "one.example/gate", "In", *addresses])
