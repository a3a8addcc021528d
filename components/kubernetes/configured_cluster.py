"""Questions to the Kubernetes cluster of the configuration, before anything is written."""

from collections.abc import Callable
from typing import Final, TypeVar

import httpx

from components.config import Config
from components.kubernetes import kubeconfig, kubernetes_reader

PREVIEW_SECONDS: Final = 5.0
"""Deadline of all questions of one check: a preview without access to the cluster must not hang."""

_Answer = TypeVar("_Answer")


def answer(config: Config, ask: Callable[[httpx.Client], _Answer], seconds: float = PREVIEW_SECONDS) -> _Answer:
    """Return what Kubernetes answers.

    Args:
        config: The configuration: `kubernetes`.
        ask: Asks it.
        seconds: How long it may take in all, a credential plugin included.

    Raises:
        UnreachableError: The API server refuses, cannot be asked, or does not answer in time.
    """
    own = config.kubernetes

    def work() -> _Answer:
        access = kubeconfig.read(own.kubeconfig.get_secret_value() if own.kubeconfig else None, own.context)
        with kubernetes_reader.client(access) as connection:
            return ask(connection)

    return kubernetes_reader.within(seconds, work)
