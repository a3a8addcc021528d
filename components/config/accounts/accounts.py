"""Configuration of accounts and of their users' associations."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

from components.config.accounts.qos import Description
from components.config.model import Model, setting
from components.config.rule import Violation, rule
from components.config.values.object_names import AccountName, QosName
from components.config.values.slurm_limits import AssociationLimit, LimitValue, written
from components.config.values.users import UserName
from components.config.values.validation import matching, text_of
from contract import accounts

_SHARES = "a whole number below 2000000000, or parent: jobs count as the account's above"
Shares = Annotated[str, text_of(_SHARES), matching(r"parent|\d{1,9}|1\d{9}", _SHARES)]


class RemovalPolicy(StrEnum):
    """Fate of what a configuration made in slurmdbd and declares no more."""

    KEEP = "keep"
    DELETE = "delete"


class Association(Model):
    """The part that an account and a user in an account have alike."""

    fairshare: Shares | None = setting("Shares beside others below the same account. Left out: 1.", default=None)
    qos: list[QosName] = setting(
        "QOS that its jobs may have: declared ones, and normal. Left out: those of the account above.", factory=list
    )
    default_qos: QosName | None = setting("QOS of jobs that name none.", default=None)
    limits: dict[AssociationLimit, LimitValue] = setting(
        "Limits by sacctmgr's words, such as MaxJobs or GrpTRES.", factory=dict
    )

    @rule
    def _limits(self) -> Iterator[Violation]:
        for word, value in self.limits.items():
            try:
                written(accounts.USER[word].kind, value)
            except ValueError as error:
                yield Violation("limits", word, want=str(error))


class AccountUser(Association):
    """A user in an account."""

    name: UserName = setting("Login name.")
    default: bool = setting(
        "Whether jobs that name no account run in this one. Of a user's several accounts, one says so. Left out: for a "
        "new user, yes.",
        default=False,
    )


class Account(Association):
    """An account: users and further accounts are below it."""

    name: Annotated[AccountName, matching(r"(?!root$).*", "another name: root is Slurm's own account")] = setting(
        "Its name."
    )
    parent: AccountName = setting("The account above it: a declared one, or root.", default=accounts.ROOT)
    description: Description | None = setting("What it is for.", default=None)
    organization: Description | None = setting("Who it belongs to. Left out: its name.", default=None)
    coordinators: list[UserName] = setting(
        "Users of a declared account who may change this account, those below it and their users.", factory=list
    )
    users: list[AccountUser] = setting("Its users.", factory=list)
