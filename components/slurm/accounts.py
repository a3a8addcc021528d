"""QOS, accounts and associations as the operator compares them with slurmdbd: sacctmgr's words, each with a text."""

from collections.abc import Iterable, Mapping
from typing import Any

from components.config.accounting import Accounting
from components.config.accounts.accounts import Account, AccountUser, Association, RemovalPolicy
from components.config.accounts.qos import Qos
from components.config.values.slurm_limits import written
from contract import accounts
from contract.accounts import Field

Values = dict[str, str]


def section(config: Accounting) -> dict[str, Any] | None:
    """Return `spec.accounts` of the SlurmCluster, None if the operator has nothing to do with accounts."""
    if not (config.qos or config.accounts or config.removal is RemovalPolicy.DELETE):
        return None
    users = {f"{account.name}/{user.name}": _user(user) for account in config.accounts for user in account.users}
    return {
        "removal": config.removal.value,
        "qos": {qos.name: _qos(qos) for qos in config.qos},
        "accounts": {account.name: _account(account) for account in config.accounts},
        "users": users,
    }


def _qos(qos: Qos) -> Values:
    return _without_none(
        {
            "Description": qos.description,
            "Priority": qos.priority,
            "Preempt": _joined(qos.preempts),
            "PreemptMode": qos.preempt_mode,
            "PreemptExemptTime": qos.preempt_exempt_time,
            "GraceTime": qos.grace_time,
            "UsageFactor": None if qos.usage_factor is None else format(float(qos.usage_factor), "g"),
            "Flags": _joined(qos.flags),
            **_limits(qos.limits, accounts.QOS),
        }
    )


def _account(account: Account) -> Values:
    return _without_none(
        {
            accounts.PARENT: account.parent,
            accounts.DESCRIPTION: account.description,
            accounts.ORGANIZATION: account.organization,
            accounts.COORDINATORS: _joined(account.coordinators),
            **_association(account),
        }
    )


def _user(user: AccountUser) -> Values:
    return _without_none({accounts.DEFAULT_ACCOUNT: accounts.YES if user.default else None, **_association(user)})


def _association(row: Association) -> dict[str, object]:
    return {
        "Fairshare": row.fairshare,
        "QOS": _joined(row.qos),
        "DefaultQOS": row.default_qos,
        **_limits(row.limits, accounts.USER),
    }


def _limits(limits: Mapping[str, str], fields: Mapping[str, Field]) -> Values:
    return {word: written(fields[word].kind, value) for word, value in limits.items()}


def _joined(words: Iterable[str]) -> str | None:
    return ",".join(sorted(words)) or None


def _without_none(values: Mapping[str, object]) -> Values:
    return {word: str(value) for word, value in sorted(values.items()) if value is not None}
