"""Finds out whose cluster a namespace holds, so that no stack overwrites another one's keys.

The ledger is the mark: its revision is an HMAC, and only its stack's state has the key. A stack that has the key wrote
the ledger. A second stack lacks it, whatever its name, and so does one whose state was lost. See docs/adr/0013.
"""

import base64
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx
import pulumi

from components.config import Config
from components.control import credentials, ledger
from components.kubernetes import configured_cluster, kubernetes_reader
from components.kubernetes.kubernetes_reader import UnreachableError
from contract import names

Data = Mapping[str, str]
"""A Secret's data, base64-encoded."""

UPDATE_SECONDS: Final = 30.0
_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class Live:
    """Marks of a cluster in a namespace.

    Attributes:
        ledger: Data of the ledger; None without one.
        stack: Stack that wrote it, as organization/project/stack; empty if unknown.
        keys: Secret → data, for the Secrets that the program would write generated keys to.
        token: Names this very cluster. Consent to take it over has to repeat it, so the consent covers no later
            cluster.
    """

    ledger: Data | None = None
    stack: str = ""
    keys: Mapping[str, Data] | None = None
    token: str = ""


def refusal(config: Config, live: Live, key: str | None, payloads: Mapping[str, Data]) -> str | None:
    """Return why this stack may not write to the namespace; None when it may.

    Args:
        config: The configuration: `cluster.namespace` and `cluster.adopt`.
        live: What the namespace holds.
        key: Key of this stack's ledgers; None while it is to be made.
        payloads: Secret → this stack's keys that exist already.
    """
    if not live.token or config.cluster.adopt == live.token or _is_own(live, key, payloads):
        return None
    whose = f"the Slurm cluster of stack {live.stack}" if live.stack else "keys"
    return (
        f"{names.PROJECT}:cluster.namespace: got {config.cluster.namespace!r}, which holds {whose} that this stack's "
        "state does not know; want a namespace of its own. Nothing was written. If the other stack is gone, or this "
        "stack's state was lost, take the cluster over with its keys: "
        f"pulumi config set --path '{names.PROJECT}:cluster.adopt' {live.token}"
    )


def _is_own(live: Live, key: str | None, payloads: Mapping[str, Data]) -> bool:
    if live.ledger is not None:
        return key is not None and ledger.is_written_with(key, live.ledger)
    return all(
        name in payloads and all(data.get(file) == content for file, content in payloads[name].items())
        for name, data in (live.keys or {}).items()
    )


def adopted(config: Config, live: Live | None) -> Mapping[str, Data]:
    """Return the keys that the stack takes over: Secret → data; none without consent to this very cluster.

    Args:
        config: The configuration: `cluster.adopt` and `credentials`.
        live: What the namespace holds, None if it was not asked.

    Raises:
        RunError: A Secret lacks a key.
    """
    if live is None or not live.token or config.cluster.adopt != live.token:
        return {}
    taken: dict[str, Data] = {}
    for name, files in credentials.generated_files(config).items():
        data = (live.keys or {}).get(name)
        if data is None:
            continue
        if missing := [file for file in files if file not in data]:
            raise pulumi.RunError(
                f"{names.PROJECT}:cluster.adopt: Secret {name} lacks {', '.join(missing)}; restore it, or delete the "
                "Secret to have new keys made"
            )
        taken[name] = {file: data[file] for file in files}
    return taken


def read(config: Config) -> Live | None:
    """Read the marks of a cluster in the namespace. Every update asks; a preview does if `checks.cluster` allows it.

    Args:
        config: The configuration: `cluster`, `checks.cluster`, `credentials` and `kubernetes`.

    Returns:
        None in a preview that may not ask, or gets no answer.

    Raises:
        RunError: An update gets no answer.
    """
    asking = functools.partial(_ask, config)
    if not pulumi.runtime.is_dry_run():
        for attempt in range(_ATTEMPTS):
            try:
                return configured_cluster.answer(config, asking, UPDATE_SECONDS)
            except UnreachableError as failure:
                if attempt == _ATTEMPTS - 1:
                    raise pulumi.RunError(
                        f"{names.PROJECT}:kubernetes: whose cluster namespace {config.cluster.namespace} holds is not "
                        f"known, so nothing is written: {failure}; give a kubeconfig that reads Secrets there"
                    ) from None
    if config.checks.cluster:
        try:
            return configured_cluster.answer(config, asking)
        except UnreachableError as failure:
            pulumi.log.warn(f"checks.cluster: whose cluster the namespace holds is not known: {failure}")
    return None


def _ask(config: Config, connection: httpx.Client) -> Live:
    secrets = {
        name: secret
        for name in (names.LEDGER, *credentials.generated_files(config))
        if (secret := _secret(connection, config.cluster.namespace, name)) is not None
    }
    return live_state(secrets)


def live_state(secrets: Mapping[str, Mapping[str, Any]]) -> Live:
    """Return the marks of a cluster in these Secrets, by name."""
    keys = {name: secret.get("data") or {} for name, secret in secrets.items() if name != names.LEDGER}
    written = secrets.get(names.LEDGER)
    if written is None:
        oldest = min((secret["metadata"]["uid"] for secret in secrets.values()), default="")
        return Live(keys=keys, token=oldest)
    data: Data = written.get("data") or {}
    return Live(
        ledger=data,
        stack=(written["metadata"].get("annotations") or {}).get(names.ANNOTATION_STACK, ""),
        keys=keys,
        token=base64.b64decode(data.get(names.LEDGER_REVISION, "")).decode() or written["metadata"]["uid"],
    )


def _secret(connection: httpx.Client, namespace: str, name: str) -> Mapping[str, Any] | None:
    return kubernetes_reader.item(connection, f"/api/v1/namespaces/{namespace}/secrets/{name}")


def permit(
    config: Config, live: Live | None, generated: credentials.GeneratedKeys
) -> pulumi.Resource | pulumi.Output[pulumi.Resource]:
    """Return the dependency of the first objects: the stack's key, if the stack may write.

    Args:
        config: The configuration: `cluster.namespace` and `cluster.adopt`.
        live: What the namespace holds, None if it was not asked.
        generated: The stack's keys.

    Returns:
        A dependency that fails with a RunError where the stack may not write.
    """
    if live is None:
        return generated.revision

    async def judged() -> pulumi.Resource:
        # A key that a preview does not know is yet to be generated. So no live cluster has it.
        known = {name: data for name, output in generated.generated.items() if (data := await output.future())}
        if reason := refusal(config, live, await generated.revision_key.future(), known):
            raise pulumi.RunError(reason)
        return generated.revision

    return pulumi.Output.from_input(judged())
