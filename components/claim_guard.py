"""Refuses to replace a PersistentVolumeClaim: another storage class would mean another, empty volume.

Kubernetes can't change the class of a claim. So an edit of the configuration would delete the claim and make a new one.
The guard remembers what the claim was made from, and refuses another one at preview already.

Pulumi's state names the provider by its module and class. So neither name may change.
"""

from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi.dynamic as dynamic

from contract import names


def refusal(before: Mapping[str, Any], after: Mapping[str, Any]) -> str | None:
    """Return why the source of a claim may not change; None when it did not.

    Args:
        before: Inputs of the guard in the state; empty when there are none.
        after: Inputs of the guard now.
    """
    if not before or before.get("source") == after.get("source"):
        return None
    return (
        f"got {after['source']!r}; want {before['source']!r}, from which the volume was made: to move, make a new "
        "claim, copy the files, and name it in existingClaim"
    )


class _GuardProvider(dynamic.ResourceProvider):
    """Refuses a change of the source, and does nothing else."""

    serialize_as_secret_always = False

    def check(self, _olds: dict[str, Any], news: dict[str, Any]) -> dynamic.CheckResult:
        reason = refusal(_olds, news)
        failures = [dynamic.CheckFailure(str(news["setting"]), reason)] if reason else []
        return dynamic.CheckResult(news, failures)

    def create(self, props: dict[str, Any]) -> dynamic.CreateResult:
        return dynamic.CreateResult(id_=str(props["setting"]), outs=dict(props))

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> dynamic.DiffResult:
        return dynamic.DiffResult(changes=False)


class ClaimGuard(dynamic.Resource, module="pulumi-slurm", name="ClaimGuard"):
    """Remembers what a claim was made from.

    Args:
        name: Name of the resource in the stack.
        setting: Where the configuration says it, such as jail.storage.
        source: What the claim is made from, such as a storage class.
        opts: Options of the resource.
    """

    def __init__(self, name: str, setting: str, source: str, opts: pulumi.ResourceOptions | None = None) -> None:
        inputs = {"setting": f"{names.PROJECT}:{setting}", "source": source}
        super().__init__(_GuardProvider(), name, inputs, opts)


def class_source(class_name: str | None) -> str:
    """Return the source of a claim of a storage class, in words."""
    return f"className {class_name}" if class_name is not None else "the default storage class"
