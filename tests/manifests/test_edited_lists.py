"""The operator undoes every edit of a declared object's lists, at a real API server and with the declared Role.

The lists are those of the manifests, and their kinds those of the API server's schema: with unique keys, or atomic.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import hypothesis
import kopf
import pytest
from hypothesis import strategies as st
from slurm_operator.clients import kubernetes
from slurm_operator.clients.kubernetes import KubernetesApi
from slurm_operator.clients.lease import Lease
from slurm_operator.reconcile.drift import DriftReconciler

from components.control import operator
from contract import names
from devcluster.apiserver.control_plane import ApiServer
from tests.manifests.declared_stacks import VARIANTS, Server, declared
from tests.manifests.list_edits import EDITS, Edit, add, change_key, change_value, remove, reorder, repeat
from tests.manifests.schemas import Body, Place, Schemas, at, identity, sample
from tests.operator.worlds.api_server import access_by

NAMESPACE = "lists"
PULL_SECRETS = {"pullSecrets": ["one", "two"]}
LEDGERS = [names.LEDGER, names.LEDGER_PAYLOADS]


def _with_mounts(body: Body) -> Body:
    """Without the mounts of volumes that are no more: whoever removes a volume removes them too."""
    pod = body.get("spec", {}).get("template", {}).get("spec", {})
    volumes = {each["name"] for each in pod.get("volumes", ())}
    for container in (*pod.get("containers", ()), *pod.get("initContainers", ())):
        if "volumeMounts" in container:
            container["volumeMounts"] = [each for each in container["volumeMounts"] if each["name"] in volumes]
    return body


class Stack:
    """A declared stack, its lists, and a drift reconciler with the rights of the declared Role."""

    def __init__(self, server: Server, kubeconfig: Path, raw: Mapping[str, Any], namespace: str) -> None:
        self.server, self.namespace = server, namespace
        self._runner = asyncio.Runner()
        self._running: dict[bool, DriftReconciler] = {}  # By whether it has an administrator's rights.
        cluster = {**raw["cluster"], "namespace": namespace}
        bodies = declared({**raw, "cluster": cluster, "images": {**raw["images"], **PULL_SECRETS}})
        ledger = next(each for each in bodies if identity(each) == ("Secret", names.LEDGER))
        document = gzip.decompress(base64.b64decode(ledger["data"][names.LEDGER_DATA]))
        held = {identity(each) for each in json.loads(document)["objects"]}
        self.objects = {identity(each): each for each in bodies if identity(each) in held}
        assert self.objects.keys() == held
        also = [each for each in bodies if each["kind"] == "SlurmCluster" or each["metadata"]["name"] in LEDGERS]
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        for each in [*self.objects.values(), *also]:
            self.apply(each)
        self.was = {key: content(self.live(key)) for key in self.objects}
        schemas = Schemas(server)
        self.places = [place for each in self.objects.values() for place in schemas.lists(each)]
        path = server.path(self.objects["ServiceAccount", names.OPERATOR])
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = server.client.post(f"{path}/token", json=request).json()["status"]["token"]
        self.admin = access_by(kubeconfig)
        self.operator = kopf.ConnectionInfo(server=self.admin.server, ca_data=self.admin.ca_data, token=token)

    def apply(self, body: Body) -> None:
        answer = self.server.apply(self.server.path(body), body)
        assert answer["kind"] == body["kind"], answer

    def live(self, key: tuple[str, str]) -> Body:
        found: Body = self.server.client.get(self.server.path(self.objects[key])).json()
        return found

    def edit(self, place: Place, edit: Edit, chance: random.Random, tries: int = 1) -> bool:
        """Change a list of a live object; returns whether that was possible, and the API server took it."""
        for _ in range(tries):
            live = self.live(place.owner)
            try:
                items = at(live, place.steps)
            except (KeyError, IndexError):
                return False  # An edit before it has taken it away.
            found = edit(items, place.keys, chance) if items else None
            if found is None or self._changes_what_nobody_declares(place, items, found):
                return False
            at(live, place.steps[:-1])[place.steps[-1]] = found
            if self.write(place.owner, _with_mounts(live), chance):
                return True
        return False

    def _changes_what_nobody_declares(self, place: Place, items: list[Any], found: list[Any]) -> bool:
        """Return whether only ports of the Kubernetes nodes differ, which the API server chose."""
        if place.owner[0] != "Service" or place.steps != ("spec", "ports"):
            return False
        if any("nodePort" in port for port in self.objects[place.owner]["spec"]["ports"]):
            return False
        bare = [[{**port, "nodePort": 0} for port in ports] for ports in (items, found)]
        return bare[0] == bare[1]

    def write(self, key: tuple[str, str], body: Body, chance: random.Random) -> bool:
        """Write a whole object as `kubectl edit` or as `kubectl apply --server-side` does."""
        path = self.server.path(self.objects[key])
        if chance.random() < 0.5:
            answer = self.server.client.put(path, json=body, params={"fieldManager": "kubectl-edit"}).json()
        else:
            metadata = {key: value for key, value in body["metadata"].items() if key != "managedFields"}
            answer = self.server.apply(path, {**body, "metadata": metadata}, fieldManager="kubectl")
        return answer["kind"] == body["kind"] and content(answer) != self.was[key]

    def heal(self, is_restored: Callable[[], bool], *, as_admin: bool = False) -> None:
        """Let the operator find and restore what is not as declared: one that runs on, as an operator does.

        Args:
            is_restored: whether the objects are as they were.
            as_admin: another operator does it, which has an administrator's rights.
        """
        if as_admin not in self._running:
            self._running[as_admin] = self._runner.run(self._reconciler(self.admin if as_admin else self.operator))
        self._runner.run(self._rounds(self._running[as_admin], is_restored))

    def close(self) -> None:
        """End the operators."""
        for reconciler in self._running.values():
            self._runner.run(_close(reconciler))
        self._runner.close()

    async def _reconciler(self, access: kopf.ConnectionInfo) -> DriftReconciler:
        api = KubernetesApi(lambda: access, self.namespace)
        # Always fresh: one round takes longer than a lease is trusted, on a busy machine.
        lease = Lease(api, "one", clock=lambda: 0.0)
        await lease.renew()
        return DriftReconciler(api, lease, lambda: None, lambda: None)

    async def _rounds(self, reconciler: DriftReconciler, is_restored: Callable[[], bool]) -> None:
        reconciler._restored.clear()  # An object that is edited again and again would have to wait.
        async with asyncio.timeout(120):
            while len(reconciler._clean) < len(self.objects) or not is_restored():
                await reconciler.run()
                assert reconciler.problems == ()
                await asyncio.sleep(0.05)  # Watches bring the next change meanwhile.

    def _differs(self, key: tuple[str, str]) -> bool:
        return content(self.live(key)) != self.was[key]

    def expect_healed(self, edited: Mapping[tuple[str, str], list[str]]) -> None:
        """Let the operator heal what was edited."""
        # Who takes its own rights away is told by the operator, which cannot take them back.
        rights = any(kind in ("Role", "RoleBinding") for kind, _ in edited)
        try:
            self.heal(lambda: not any(map(self._differs, edited)), as_admin=rights)
        except TimeoutError:
            left = [f"{' '.join(key)} after {edits}" for key, edits in edited.items() if self._differs(key)]
            raise AssertionError(f"not restored: {left}") from None


async def _close(reconciler: DriftReconciler) -> None:
    await reconciler.close()
    await reconciler._api.close()


def content(live: Body) -> Body:
    """Return what an object says."""
    found = {key: value for key, value in live.items() if key != "status"}
    hidden = ("resourceVersion", "managedFields", "generation")
    return {**found, "metadata": {key: value for key, value in live["metadata"].items() if key not in hidden}}


@pytest.fixture(scope="module")
def stacks(apiserver: ApiServer) -> Iterator[list[Stack]]:
    """Stacks that between them have every list which any configuration declares."""
    server = Server(apiserver.kubeconfig)
    for crd in (dict(manifest.body) for manifest in operator.crd_manifests()):
        server.install(crd)
    variants = ("everything", "gpu.example", "dev")
    found = [
        Stack(server, apiserver.kubeconfig, VARIANTS[name], f"{NAMESPACE}-{number}")
        for number, name in enumerate(variants)
    ]
    with pytest.MonkeyPatch.context() as patch:
        # Of how fast a busy machine answers, nothing is promised here.
        patch.setattr(kubernetes, "DEADLINE_SECONDS", 60.0)
        yield found
    for stack in found:
        stack.close()
        # A node port is taken from all namespaces.
        for key in (key for key in stack.objects if key[0] == "Service"):
            server.client.delete(server.path(stack.objects[key]))
    server.client.close()


def _possible(edit: Edit, places: list[Place], stack: Stack) -> bool:
    """Return whether the API server should accept an edit of one of these lists of one field."""
    lists = [(at(stack.was[place.owner], place.steps), place.keys) for place in places]
    if edit in (remove, reorder):
        return any(len(items) > 1 for items, _ in lists)
    if edit is change_value:
        return any(item.keys() - {*(keys or ())} for items, keys in lists for item in items)
    return edit is not repeat


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
def test_an_edit_of_any_list_is_undone(stacks: list[Stack], edit: Edit) -> None:
    """Each list of the manifests by its field; those with unique keys must have been edited, not only tried."""
    missed = []
    left = {place.sort: stack for stack in stacks for place in stack.places}
    while left:
        stack = next(iter(left.values()))
        edited: dict[tuple[str, str], list[str]] = {}
        for sort in [sort for sort, of in left.items() if of is stack]:
            places = [place for place in stack.places if place.sort == sort]
            free = [place for place in places if place.owner not in edited]
            chance = random.Random(f"{sort} {edit.__name__}")
            # A new value may be refused where another is not; what is only left out or repeated is the same again.
            tries = 30 if edit in (change_key, change_value, add) else 3
            taken = (place for place in chance.sample(free, len(free)) if stack.edit(place, edit, chance, tries))
            place = next(taken, None)
            if place is None and len(free) < len(places):
                continue  # Another of its objects may do, once that is restored.
            del left[sort]
            if place is not None:
                edited[place.owner] = [f"{edit.__name__} {place.steps}"]
            elif places[0].keys and _possible(edit, places, stack):
                missed.append(sort)
        stack.expect_healed(edited)
    assert missed == [], f"no {edit.__name__} was taken"


@hypothesis.settings(max_examples=20)
@hypothesis.given(seed=st.integers(0, 2**32))
def test_edits_of_many_lists_at_once_are_undone(stacks: list[Stack], seed: int) -> None:
    chance = random.Random(seed)
    stack = chance.choice(stacks)
    edited: dict[tuple[str, str], list[str]] = {}
    for place in chance.sample(stack.places, 25):
        edit = chance.choice(EDITS)
        if stack.edit(place, edit, chance):
            edited.setdefault(place.owner, []).append(f"{edit.__name__} {place.steps}")
    stack.expect_healed(edited)


def test_a_list_that_is_not_declared_goes(stacks: list[Stack]) -> None:
    """Every list that the schemas of the declared kinds have in `spec`, where nothing of it is declared."""
    schemas, stack = Schemas(stacks[0].server), stacks[0]
    absent: dict[str, list[tuple[Place, Body, Body]]] = {}
    for body in stack.objects.values():
        for each in schemas.absent(body):
            if each[0].steps[0] == "spec" and body["kind"] != "PersistentVolumeClaim":
                absent.setdefault(each[0].sort, []).append(each)
    added: set[str] = set()
    while absent:
        edited: dict[tuple[str, str], list[str]] = {}
        for sort, found in [*absent.items()]:
            free = next((each for each in found if each[0].owner not in edited), None)
            if free is None:
                continue  # Its objects have another list this time.
            del absent[sort]
            place, schema, known = free
            chance = random.Random(sort)
            if any(_add_list(stack, place, sample(known, schema, chance), chance) for _ in range(25)):
                added.add(sort)
                edited[place.owner] = [f"added {place.steps}"]
        stack.expect_healed(edited)
    assert {"StatefulSet spec.template.spec.initContainers", "Deployment spec.template.spec.hostAliases"} <= added
    assert "Service spec.externalIPs" in added
    assert len(added) > 35, sorted(added)


def _add_list(stack: Stack, place: Place, items: list[Any], chance: random.Random) -> bool:
    live = stack.live(place.owner)
    at(live, place.steps[:-1])[place.steps[-1]] = items
    return stack.write(place.owner, live, chance)


def test_finalizers_and_owners_of_others_stay_and_hold_up_no_heal(stacks: list[Stack]) -> None:
    """They belong to whoever waits for them, such as a load balancer's controller."""
    stack, key = stacks[0], ("Service", "slurm-login")
    live = stack.live(key)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "other", "uid": "other"}
    live["metadata"] |= {"finalizers": ["other.example/cleanup"], "ownerReferences": [owner]}
    live["spec"]["ports"][0]["port"] += 1
    assert stack.write(key, live, random.Random(1))
    stack.heal(lambda: stack.live(key)["spec"] == stack.was[key]["spec"])
    healed = stack.live(key)
    assert healed["metadata"].pop("finalizers") == ["other.example/cleanup"]
    assert [each["name"] for each in healed["metadata"].pop("ownerReferences")] == ["other"]
    stack.server.client.put(stack.server.path(stack.objects[key]), json=healed)
    stack.expect_healed({key: ["finalizers and owners"]})
