"""Every component has a permanent type, a parent, outputs, and documented arguments."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import pulumi
import pytest

import components
from components.kubernetes.component import Component, Part
from tests.unit.samples import EVERYTHING, Engine, run_program


def subclasses(of: type[Component]) -> Iterator[type[Component]]:
    for each in of.__subclasses__():
        if each is not Part:
            yield each
        yield from subclasses(each)


for module in pkgutil.walk_packages(components.__path__, "components."):
    importlib.import_module(module.name)
COMPONENTS = sorted(subclasses(Component), key=lambda each: each.__name__)
EVERY_COMPONENT = pytest.mark.parametrize("component", COMPONENTS, ids=lambda each: each.__name__)


@pytest.fixture(scope="module", params=["preview", "update"])
def engine(request: Any) -> Engine:
    """The program with every component: in a preview, where keys are not known yet, and in an update."""
    return run_program(EVERYTHING, preview=request.param == "preview")[0]


def test_every_component_resource_of_the_program_is_one_of_them() -> None:
    everything = [
        each
        for module in pkgutil.walk_packages(components.__path__, "components.")
        for _, each in inspect.getmembers(importlib.import_module(module.name), inspect.isclass)
        if issubclass(each, pulumi.ComponentResource) and each.__module__.startswith("components.")
    ]
    assert set(everything) - {Component, Part} == set(COMPONENTS)


@EVERY_COMPONENT
def test_a_component_is_registered_under_its_own_type_with_a_parent_and_outputs(
    engine: Engine, component: type[Component]
) -> None:
    stored = component.stored_as or component.__name__
    found = [each for each in engine.registered if each.type == f"pulumi-slurm:index:{stored}"]
    assert found, f"no {component.__name__}: put what it takes into tests.unit.samples.EVERYTHING"
    for each in found:
        parent = each.request.parent
        if component.__name__ == "SlurmCluster":
            assert parent.endswith("::pulumi-slurm-test") or "pulumi:pulumi:Stack" in parent
        else:
            assert "pulumi-slurm:index:SlurmCluster" in parent, f"{each.name} has the parent {parent}"
        assert each.urn in engine.outputs, f"{each.name} registers no outputs: Pulumi would take it for unfinished"


def test_every_object_belongs_to_a_component(engine: Engine) -> None:
    astray = [each.name for each in engine.kubernetes() if "pulumi-slurm:index:" not in each.request.parent]
    assert astray == []


def documented(docstring: str) -> list[str]:
    """Names below `Args:` of a docstring."""
    _, _, below = inspect.cleandoc(docstring).partition("\nArgs:\n")
    return re.findall(r"^ {4}(\w+): \S", re.split(r"\n\n(?=\S)", below)[0], re.M)


@EVERY_COMPONENT
def test_every_argument_is_documented(component: type[Component]) -> None:
    arguments = [name for name in inspect.signature(component.__init__).parameters if name != "self"]
    owner = next(each for each in component.__mro__ if "__init__" in vars(each))
    assert documented(owner.__doc__ or "") == arguments


@EVERY_COMPONENT
def test_a_component_lives_in_a_file_that_names_what_it_declares(component: type[Component]) -> None:
    file = component.__module__.rpartition(".")[2]
    words = re.sub(r"(?<!^)(?=[A-Z])", "_", component.__name__).lower()
    shared = {"Namespace": "slurm_cluster", "Workers": "slurm_cluster", "GeneratedKeys": "credentials"}
    assert shared.get(component.__name__, words) == file or words.startswith(file) or file.startswith(words)
