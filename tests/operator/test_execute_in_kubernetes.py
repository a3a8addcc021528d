"""Promises of changes in Kubernetes: a node is looked at again right before, and conflicts are told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from slurm_operator import actions, execute
from slurm_operator.clients.kubernetes import KubernetesApi, KubernetesError
from slurm_operator.clients.slurm import slurmrestd

from contract import names, reasons
from tests.operator.fakes.fake_slurm import FakeSlurm
from tests.operator.fakes.fake_slurmrestd import FakeSlurmrestd
from tests.operator.played.carried_out import (
    NODE,
    REPAIR,
    UNFIT,
    Meanwhile,
    at_work,
    by_somebody,
    carry_out,
    gone,
    in_our_words,
    undrained,
    with_rest,
)
from tests.operator.played.played_clients import LeaseFor


class Cordoning(KubernetesApi):
    """One Kubernetes node and one pod; `then` happens while the node is cordoned."""

    def __init__(self, then: Callable[[], None]) -> None:
        self.then = then
        self.done: list[str] = []

    async def get(self, api: str, plural: str, name: str) -> Any:
        return {"metadata": {"uid": "1"}, "spec": {}}

    async def patch(self, api: str, plural: str, name: str, operations: Any) -> Any:
        assert operations[:2] == [
            {"op": "test", "path": "/metadata/uid", "value": "1"},
            {"op": "test", "path": "/spec/taints", "value": None},
        ]
        self.done.append(f"cordoned {name}")
        self.then()
        return {}

    async def delete(
        self, api: str, plural: str, name: str, preconditions: Mapping[str, str], *, orphan: bool = False
    ) -> bool:
        self.done.append(f"deleted {name}")
        return True


@pytest.mark.parametrize("meanwhile", [by_somebody, in_our_words, undrained, at_work, gone, None])
def test_a_node_is_looked_at_again_once_its_machine_is_cordoned(
    slurm: FakeSlurmrestd, tmp_path: Path, meanwhile: Meanwhile | None
) -> None:
    slurm.slurm.register(NODE)
    slurm.slurm.drain(NODE, REPAIR, names.SLURM_USER)
    api = Cordoning(lambda: meanwhile(slurm.slurm) if meanwhile else None)
    decided = actions.DeletePod(NODE, "7", actions.Purpose.ELSEWHERE, UNFIT, cordon="k8s-0")
    told = carry_out(slurm, tmp_path, api, decided)
    assert api.done == ["cordoned k8s-0", *([] if meanwhile else [f"deleted {NODE}"])]
    assert f"pod {NODE} stays" in told if meanwhile else told.startswith(f"deleted the idle pod {NODE}")


class NoServer(KubernetesApi):
    """Takes every apply."""

    def __init__(self) -> None:
        self.applied: list[str] = []

    async def apply(
        self, api: str, plural: str, body: Any, subresource: str = "", manager: str = names.OPERATOR_FIELD_MANAGER
    ) -> Any:
        self.applied.append(plural)
        return body


def recovered(slurm: FakeSlurm) -> None:
    slurm.undrain(NODE)


def unfit_again(slurm: FakeSlurm) -> None:
    slurm.drain(NODE, UNFIT, "root")


@pytest.mark.parametrize("meanwhile", [recovered, unfit_again, at_work, gone])
@pytest.mark.parametrize(
    ("action", "kind"),
    [
        (actions.SetReplicas("cpu", 0, 1, "7", (NODE,)), "statefulsets"),
        (actions.SetEvictable(NODE, "7", evictable=True), "pods"),
    ],
)
def test_a_node_that_is_let_go_is_looked_at_once_more(
    slurm: FakeSlurmrestd, tmp_path: Path, action: actions.Action, kind: str, meanwhile: Meanwhile
) -> None:
    api = NoServer()
    slurm.slurm.register(NODE)
    slurm.slurm.drain(NODE, reasons.SCALE_IN, names.SLURM_USER)
    meanwhile(slurm.slurm)
    carry_out(slurm, tmp_path, api, action)
    assert api.applied == ([kind] if meanwhile is gone else []), "only one that Slurm does not know may go"
    slurm.slurm.register(NODE)
    slurm.slurm.drain(NODE, reasons.SCALE_IN, names.SLURM_USER)
    slurm.slurm.nodes[NODE].update(alloc_cpus=0, state=["IDLE", "DRAIN"])
    carry_out(slurm, tmp_path, api, action)
    assert api.applied[-1:] == [kind]


class Busy(KubernetesApi):
    """A StatefulSet that has changed each time, and its size too after some tries."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes
        self.versions: list[str] = []

    async def apply(
        self, api: str, plural: str, body: Any, subresource: str = "", manager: str = names.OPERATOR_FIELD_MANAGER
    ) -> Any:
        self.versions.append(body["metadata"]["resourceVersion"])
        if self.sizes:
            raise KubernetesError(409, "the object has been modified")
        return body

    async def get(self, api: str, plural: str, name: str) -> Any:
        return {"metadata": {"resourceVersion": f"{len(self.versions)}"}, "spec": {"replicas": self.sizes.pop(0)}}


@pytest.mark.parametrize(
    ("sizes", "versions"),
    [([], ["7"]), ([1], ["7", "1"]), ([1, 1], ["7", "1", "2"]), ([3], ["7"]), ([1, 3], ["7", "1"])],
    ids=["unchanged", "status changed", "status changed twice", "scaled by another", "scaled by another later"],
)
def test_a_set_whose_status_changes_all_the_time_gets_its_size_and_one_that_another_scaled_does_not(
    slurm: FakeSlurmrestd, tmp_path: Path, sizes: list[int], versions: list[str]
) -> None:
    scaled = 3 in sizes
    api = Busy(sizes)

    async def done(rest: slurmrestd.SlurmRest) -> str:
        await execute.Executor(api, LeaseFor(9)).perform(rest, actions.SetReplicas("cpu", 2, 1, "7"))
        return ""

    def tried(rest: slurmrestd.SlurmRest) -> Awaitable[list[Any]]:
        return execute.Executor(api, LeaseFor(9)).attempt({}, "SetReplicas", done(rest))

    failed = with_rest(slurm, tmp_path, tried)
    assert api.versions == versions
    assert [each.reason for each in failed] == ([execute.CONFLICT] if scaled else [])


class Pods(KubernetesApi):
    """Deletes each pod; `then` happens before it answers.

    Attributes:
        uid: that of the pod which has the name when it is asked; None if none has.
    """

    def __init__(self, then: Callable[[], None], uid: str | None = "7") -> None:
        self.then = then
        self.uid = uid

    async def get_latest(self, api: str, plural: str, name: str) -> Any:
        return {"metadata": {"uid": self.uid}} if self.uid else None

    async def delete(
        self, api: str, plural: str, name: str, preconditions: Mapping[str, str], *, orphan: bool = False
    ) -> bool:
        self.then()
        return True


@pytest.mark.parametrize(
    ("forget", "meanwhile", "uid", "stays"),
    [
        (False, lambda _: None, "7", True),
        (True, lambda _: None, "7", False),
        (True, lambda _: None, None, False),
        (True, lambda _: None, "8", True),
        (True, by_somebody, "7", True),
        (True, in_our_words, "7", True),
        (True, undrained, "7", True),
    ],
    ids=[
        "an update of the image",
        "another size, and the pod ends",
        "another size, and the pod is gone",
        "another size, and the next pod is there, which may register at any moment",
        "another size, and somebody drained meanwhile",
        "another size, and somebody drained in our words",
        "another size, and somebody undrained meanwhile",
    ],
)
def test_only_another_size_takes_the_record_along_and_never_that_of_the_next_slurmd(
    slurm: FakeSlurmrestd, tmp_path: Path, forget: bool, meanwhile: Meanwhile, uid: str | None, stays: bool
) -> None:
    slurm.slurm.register(NODE)
    slurm.slurm.drain(NODE, reasons.UPDATE, names.SLURM_USER)
    action = actions.DeletePod(NODE, "7", actions.Purpose.UPDATE, "why", forget=forget)
    carry_out(slurm, tmp_path, Pods(lambda: meanwhile(slurm.slurm), uid), action)
    assert (NODE in slurm.slurm.nodes) == stays
