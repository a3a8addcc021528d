"""Failures of operations: what the engine keeps, what it forgets, and the text for the user."""

from __future__ import annotations

from devcluster.standin import api
from devcluster.standin.decisions import kinds
from devcluster.standin.decisions.kinds import Manifest
from devcluster.standin.decisions.values import Properties
from devcluster.standin.waiting import wait


class Refused(Exception):
    """An operation that changed nothing failed; the message is for the user."""


class PartialFailure(Exception):
    """The object is in the cluster, but not as it should be. The engine keeps it in the state and tries again."""

    def __init__(
        self, identity: str, message: str, properties: Properties, reasons: list[str], read_inputs: Properties | None
    ) -> None:
        """Everything that the engine stores.

        Args:
            identity: the id of the resource.
            message: for the user.
            properties: the state.
            reasons: shown below the message.
            read_inputs: the inputs, when the object was only read.
        """
        super().__init__(message)
        self.identity = identity
        self.properties = properties
        self.reasons = reasons
        self.read_inputs = read_inputs


def not_ready(error: wait.NotReady, message: str, properties: Properties) -> PartialFailure:
    """Return the failure of a wait: the object is there, so the engine has to keep it."""
    return PartialFailure(kinds.resource_id(error.live), message, properties, [message, *error.reasons], None)


def incomplete(live: Manifest, message: str, properties: Properties) -> PartialFailure:
    """Return the failure of what came after an object was made."""
    return PartialFailure(kinds.resource_id(live), message, properties, [message], None)


def is_hidden_in_preview(error: api.ApiError) -> bool:
    """Return whether a refused dry run tells nothing about the real run, where another object comes first."""
    if error.code == 403 or error.namespace_missing or error.reason == "AlreadyExists":
        return True
    return error.code == 400 and "dry run" in str(error).lower().replace("dryrun", "dry run")


def creation(urn: str, error: Exception) -> str:
    """Return words for a refused creation."""
    if isinstance(error, api.KindMissing):
        return (
            f"creation of resource {urn!r} with kind {error.kind} failed because the Kubernetes API server reported "
            "that the apiVersion for this resource does not exist. Verify that any required CRDs have been created: "
            f"{error}"
        )
    return f"resource {urn!r} was not successfully created by the Kubernetes API server: {error}"


def unreachable(reason: str) -> str:
    """Return words for an operation that needs a cluster and has none."""
    return (
        f"configured Kubernetes cluster is unreachable: {reason}. If the cluster was deleted, `pulumi state delete` "
        "takes its resources out of the state"
    )


def start(urn: str, error: Exception) -> str:
    """Return words for an object that was created and then did not start."""
    return (
        f"resource {urn!r} was successfully created, but the Kubernetes API server reported that it failed to fully "
        f"initialize or become live: {error}"
    )


def update(live: Manifest, error: Exception) -> str:
    """Return words for an object whose update was refused, or that did not become ready again."""
    return (
        f'the Kubernetes API server reported that "{kinds.resource_id(live)}" failed to fully initialize or become '
        f"live: {error}"
    )
