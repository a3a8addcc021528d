"""Reads from the API server, for decisions before anything is written and for waits afterwards."""

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import httpx

from components.kubernetes import kubeconfig
from components.kubernetes.kubeconfig import Access
from contract import names

CALL_SECONDS: Final = 5.0

_Answer = TypeVar("_Answer")


class UnreachableError(Exception):
    """The API server could not be asked; the text says why."""


def client(access: Access) -> httpx.Client:
    """Connect to the API server."""
    tls = access.tls if access.tls is not None else True
    return httpx.Client(
        base_url=access.server, verify=tls, headers=dict(access.headers), proxy=access.proxy, timeout=CALL_SECONDS
    )


def items(connection: httpx.Client, path: str, **query: str) -> list[Mapping[str, Any]]:
    """Return the objects of a list.

    Raises:
        UnreachableError: The API server refuses.
    """
    answer = connection.get(path, params=query)
    if answer.status_code != httpx.codes.OK:
        raise UnreachableError(f"the API server answers {answer.status_code} to a list of {path.rpartition('/')[2]}")
    items: list[Mapping[str, Any]] = answer.json()["items"]
    return items


def item(connection: httpx.Client, path: str) -> Mapping[str, Any] | None:
    """Return one object; None if there is none.

    Raises:
        UnreachableError: The API server refuses.
    """
    answer = connection.get(path)
    if answer.status_code == httpx.codes.NOT_FOUND:
        return None
    if answer.status_code != httpx.codes.OK:
        raise UnreachableError(f"the API server answers {answer.status_code} to a read of {path.rpartition('/')[2]}")
    answered: Mapping[str, Any] = answer.json()
    return answered


def slurm_cluster(connection: httpx.Client, namespace: str, name: str) -> Mapping[str, Any] | None:
    """Return a SlurmCluster; None if there is none.

    Raises:
        UnreachableError: The API server refuses to tell, or cannot be reached.
    """
    return item(connection, f"/apis/{names.API_VERSION}/namespaces/{namespace}/{names.SLURM_CLUSTERS}/{name}")


def within(seconds: float, ask: Callable[[], _Answer]) -> _Answer:
    """Return the answer to a request that may hang, or fail after a deadline.

    Args:
        seconds: How long it may take in all, a credential plugin included.
        ask: Asks it.

    Raises:
        UnreachableError: The API server cannot be asked, or does not answer in time.
    """
    outcome: list[_Answer] = []
    failures: list[UnreachableError] = []

    def work() -> None:
        try:
            outcome.append(ask())
        except (UnreachableError, kubeconfig.KubeconfigError) as failure:
            failures.append(UnreachableError(str(failure)))
        except (httpx.HTTPError, OSError, ValueError, KeyError) as failure:
            failures.append(UnreachableError(f"the API server cannot be asked ({type(failure).__name__})"))

    # A thread that hangs in a name look-up ends with the program.
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if failures:
        raise failures[0]
    if not outcome:
        raise UnreachableError(f"no answer in {seconds:.0f} s")
    return outcome[0]
