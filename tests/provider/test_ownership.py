"""A live cluster's keys are overwritten by no second stack, and adopted by one that lost its state."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from components import keys
from contract import names
from tests.provider.stacks import Cluster, Stack
from tests.unit.samples import SMALL

pytestmark = pytest.mark.apiserver

SECRETS = (names.LEDGER, names.KEYS, names.SSH_HOST_KEYS)
READ = """
    from components.control import credentials, ownership
    from components import slurm_cluster
    from components.config import parse
    from components.control.ledger import LedgerSecrets
    from components.kubernetes.provider import kubernetes_provider
    config = parse({raw!r})
    options = pulumi.ResourceOptions(provider=kubernetes_provider(config))
    live = ownership.read(config)
"""
KEYS_AND_LEDGER = f"""{READ}
    generated = credentials.GeneratedKeys("generated-keys", config, options, ownership.adopted(config, live))
    space = slurm_cluster.Namespace("namespace", config, [ownership.permit(config, live, generated)], options)
    written = LedgerSecrets("ledger", config, slurm_cluster.manifests(config), generated.payloads,
        generated.revision_key, [space], options)
    credentials.Credentials("credentials", config, generated.payloads, [written], options)
"""
"""The first objects of an update: a whole one waits for nodes, which this API server does not have."""
EVERYTHING = f"""{READ}
    slurm_cluster.SlurmCluster(config.cluster.name, config, options, live)
"""


def program(stack: Stack, text: str, *, asks: bool = False, **cluster: Any) -> None:
    """Replaces the program; `cluster` adds to the configuration's part of that name."""
    raw = {
        **SMALL,
        "cluster": {**SMALL["cluster"], "namespace": stack.namespace, **cluster},
        "kubernetes": {"kubeconfig": str(stack.cluster.kubeconfig)},
        "checks": {"cluster": asks},
    }
    stack.program(text.format(raw=raw))


def secrets(stack: Stack) -> dict[str, Any]:
    """The live Secrets, with what changes at every write."""
    path = f"/api/v1/namespaces/{stack.namespace}/secrets"
    return {name: stack.cluster.get(f"{path}/{name}") for name in SECRETS}


def contents(stack: Stack) -> dict[str, Any]:
    """The keys alone."""
    return {name: each["data"] for name, each in secrets(stack).items() if name != names.LEDGER}


def revision(stack: Stack) -> str:
    written: str = base64.b64decode(secrets(stack)[names.LEDGER]["data"][names.LEDGER_REVISION]).decode()
    return written


@pytest.fixture
def owner(stack: Stack) -> Stack:
    """The stack that made the cluster."""
    program(stack, KEYS_AND_LEDGER)
    stack.up()
    return stack


@pytest.fixture(scope="module")
def settled(
    new_stack: Callable[[Path], contextlib.AbstractContextManager[Stack]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    """Such a stack for several tests, which change nothing of its cluster."""
    with new_stack(tmp_path_factory.mktemp("settled")) as made:
        program(made, KEYS_AND_LEDGER)
        made.up()
        yield made


@pytest.fixture
def other_backend(
    cluster: Cluster, tmp_path: Path, binaries: Path, plugin_folder: Path, pulumi_home: Path
) -> Callable[[Stack], Stack]:
    """Makes a stack of the same name in another backend, for the same namespace."""

    def make(first: Stack) -> Stack:
        folder = tmp_path / "second"
        folder.mkdir()
        made = Stack(folder, [plugin_folder, binaries], cluster, pulumi_home)
        made.namespace = first.namespace
        return made

    return make


def test_the_owner_goes_on_without_a_word(settled: Stack) -> None:
    before = contents(settled)
    for asks in (False, True):
        program(settled, KEYS_AND_LEDGER, asks=asks)
        assert settled.steps() == {}
    settled.up()
    assert contents(settled) == before
    mark = secrets(settled)[names.LEDGER]["metadata"]["annotations"][names.ANNOTATION_STACK]
    assert mark == "organization/standin/test"


@pytest.mark.parametrize("asks", [False, True])
def test_a_second_stack_is_refused_before_anything_is_written(
    settled: Stack, other_backend: Callable[[Stack], Stack], asks: bool
) -> None:
    before, second = secrets(settled), other_backend(settled)
    program(second, EVERYTHING, asks=asks)
    if asks:
        refused = second.fails("preview")
        assert "organization/standin/test" in refused
        assert f"'pulumi-slurm:cluster.adopt' {revision(settled)}" in " ".join(refused.split())
    else:
        second.pulumi("preview")
    refused = second.fails("up", "--yes", "--skip-preview")
    assert "that this stack's state does not know" in " ".join(refused.split())
    assert secrets(settled) == before
    definitions = settled.cluster.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]
    assert not [each for each in definitions if each["spec"]["group"] == names.API_GROUP]
    assert not [each for each in second.state().values() if each["type"].startswith("kubernetes:")]


def test_a_lost_state_is_refused_and_adopts_the_cluster_with_its_keys(owner: Stack) -> None:
    before, old = contents(owner), revision(owner)
    owner.pulumi("stack", "rm", "--force", "--yes")
    owner.pulumi("stack", "init", "test")
    # The refused run leaves keys in the state that the cluster does not have.
    owner.fails("up", "--yes", "--skip-preview")
    program(owner, KEYS_AND_LEDGER, adopt=old)
    owner.up()
    assert contents(owner) == before
    assert revision(owner) != old
    owner.up()
    assert contents(owner) == before
    program(owner, KEYS_AND_LEDGER)
    owner.pulumi("preview", "--expect-no-changes")


def test_a_cluster_that_was_taken_over_is_its_new_stacks(owner: Stack, other_backend: Callable[[Stack], Stack]) -> None:
    before, old, second = contents(owner), revision(owner), other_backend(owner)
    program(second, KEYS_AND_LEDGER, adopt=old)
    second.up()
    assert contents(owner) == before
    # The consent was for that revision, and holds for nobody now.
    for consent in (None, old):
        program(owner, KEYS_AND_LEDGER, adopt=consent)
        assert "cluster.adopt" in owner.fails("up", "--yes", "--skip-preview")
    assert contents(owner) == before


def test_keys_without_a_ledger_are_not_overwritten_either(stack: Stack) -> None:
    path = f"/api/v1/namespaces/{stack.namespace}/secrets"
    theirs = {"metadata": {"name": names.KEYS}, "data": keys.generate(keys.SLURM)}
    made = stack.cluster.call("POST", path, theirs)
    program(stack, KEYS_AND_LEDGER)
    assert "pulumi-slurm:cluster.adopt" in stack.fails("up", "--yes", "--skip-preview")
    program(stack, KEYS_AND_LEDGER, adopt=made["metadata"]["uid"])
    stack.up()
    assert contents(stack)[names.KEYS] == theirs["data"]


def test_an_update_that_cannot_ask_writes_nothing_and_a_preview_warns(stack: Stack) -> None:
    program(stack, EVERYTHING, asks=True)
    config = json.loads(Path(stack.cluster.kubeconfig).read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    away = stack.folder / "away"
    away.write_text(json.dumps(config))
    text = (stack.folder / "__main__.py").read_text()
    (stack.folder / "__main__.py").write_text(text.replace(str(stack.cluster.kubeconfig), str(away)))
    assert "whose cluster the namespace holds is not known" in " ".join(stack.pulumi("preview").split())
    assert "so nothing is written" in " ".join(stack.fails("up", "--yes", "--skip-preview").split())
