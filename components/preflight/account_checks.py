"""Tells at preview what the plan makes of QOS, accounts and users in slurmdbd, as far as Kubernetes knows.

The operator writes into the SlurmCluster's status what slurmdbd has. A preview has no key of slurmdbd. See
docs/adr/0041.
"""

import datetime
import functools
from collections.abc import Callable
from typing import Final

import httpx
import pulumi

from components.config import Config
from components.kubernetes import configured_cluster, kubernetes_reader
from components.kubernetes.kubernetes_reader import UnreachableError
from components.preflight import account_changes
from components.preflight.account_changes import KnownAccounts
from components.slurm import accounts

OLD_AFTER: Final = datetime.timedelta(minutes=15)
"""An operator that works gives what it read a new time within 13 minutes."""
_UNREAD: Final = (
    "accounting: what differs in slurmdbd is not known: the operator has not read it. It does from the first "
    "accounting.qos or accounting.accounts on"
)


def _ask(config: Config, connection: httpx.Client) -> KnownAccounts | None:
    cluster = kubernetes_reader.slurm_cluster(connection, config.cluster.namespace, config.cluster.name)
    return None if cluster is None else account_changes.read(cluster.get("status") or {})


def read(config: Config) -> KnownAccounts | None:
    """Return what the running cluster's slurmdbd has; None without a cluster.

    Args:
        config: The configuration: `cluster` and `kubernetes`.

    Raises:
        UnreachableError: The API server cannot be asked, or does not answer in time.
    """
    return configured_cluster.answer(config, functools.partial(_ask, config))


def run(config: Config, look: Callable[[Config], KnownAccounts | None] = read) -> None:
    """Tell at preview what the plan makes of slurmdbd's QOS, accounts and users, and what stays of others' doing.

    Args:
        config: The configuration: `accounting`, `checks`, `cluster` and `kubernetes`.
        look: Reads what Kubernetes has.
    """
    section = accounts.section(config.accounting)
    if not pulumi.runtime.is_dry_run() or not config.checks.asks_for_accounts or section is None:
        return
    try:
        known = look(config)
    except UnreachableError as failure:
        pulumi.log.warn(f"checks.accounts: what differs in slurmdbd is not known: {failure}")
        return
    if known is None:
        return
    if known.read_at is None:
        pulumi.log.warn(_UNREAD)
        return
    if told := account_changes.lines(account_changes.changes(section, known), known):
        pulumi.log.info("\n".join(told))
        minutes = int((datetime.datetime.now(datetime.UTC) - known.read_at).total_seconds() // 60)
        if minutes > OLD_AFTER.total_seconds() // 60:
            pulumi.log.warn(f"slurmdbd was read {minutes} minutes ago: the operator, or slurmdbd, does not answer")
