"""A history that is told step by step begins with a set that runs, and goes on by passes."""

from __future__ import annotations

from tests.operator.model.random_walk import Model


def played(size: int) -> Model:
    """A set of that size that runs."""
    model = Model()
    model.a_set_runs(size=size, room=1, update=None, removal=None, steps=(True, False))
    return model


def goes_on(model: Model, passes: int) -> None:
    """The operator passes, and Kubernetes steps."""
    for _ in range(passes):
        model.the_operator_passes()
        model.kubernetes_steps()
        model.time_passes(1)
