"""Changes of a node set's template at a real API server, and what its workers run."""

from __future__ import annotations

from typing import Any

from tests.operator.worlds.world import World


def change_template(world: World, image: str, name: str = "cpu") -> None:
    """`pulumi up` with another image of the workers, or of another set."""
    body = world.get("statefulsets", name)
    container = {"name": "slurm", "image": image}
    world.patch("statefulsets", name, {"spec": {"template": {"spec": {"containers": [container]}}}})
    assert world.get("statefulsets", name)["metadata"]["generation"] > body["metadata"]["generation"]


def images(world: World) -> list[str]:
    """Return what the workers run."""
    pods = world.admin.call("GET", world.path("pods"))["items"]
    found = {pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"] for pod in pods}
    return [found.get(name, "") for name in ("cpu-0", "cpu-1")]


def status(world: World) -> Any:
    return world.get("nodesets", "cpu")["status"]
