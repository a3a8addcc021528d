"""A played slurmdbd: it keeps records, and refuses what slurmdbd 26.05 was seen to refuse."""

from __future__ import annotations

from collections.abc import Mapping

from slurm_operator.accounts import Database, Entity, Kind, Records, Values, value
from slurm_operator.clients.slurm import slurm_accounts
from slurm_operator.clients.slurm.slurm_error import SlurmError, Trouble
from slurm_operator.decide.cluster.accounts import Change, Removal

QOS, ACCOUNT, USER = Kind.QOS, Kind.ACCOUNT, Kind.USER
OWN: Records = {
    Entity(QOS, "normal"): {},
    Entity(ACCOUNT, "root"): {"QOS": "normal", "Parent": ""},
    Entity(USER, "root/root"): {"DefaultAccount": "yes"},
}
"""The records of a new cluster."""


class PlayedDatabase:
    """slurmrestd with slurmdbd behind it, as far as the operator asks it about accounts.

    Attributes:
        records: what is there.
        calls: the changes, in their order.
        deaf: words that it takes without an error and without an effect.
        busy: records with jobs.
        trouble: the error of each call, while it is set.
        most: calls until slurmrestd is away.
    """

    def __init__(self, records: Records | None = None) -> None:
        self.records: dict[Entity, dict[str, str]] = {entity: dict(values) for entity, values in OWN.items()}
        self.records |= {entity: dict(values) for entity, values in (records or {}).items()}
        self.calls: list[str] = []
        self.reads = 0
        self.deaf: frozenset[str] = frozenset()
        self.busy: frozenset[Entity] = frozenset()
        self.trouble: SlurmError | None = None
        self.most = 1000

    def found(self) -> Database:
        """Return what it has."""
        return Database({entity: dict(values) for entity, values in self.records.items()})

    async def accounts(self, cluster: str) -> Database:
        """Read all of it."""
        self.reads += 1
        if self.trouble:
            raise self.trouble
        return self.found()

    async def change_account(self, cluster: str, change: Change) -> None:
        """Make or change a record, if slurmrestd can be asked for that."""
        assert [*slurm_accounts.requests(cluster, change)]
        self.apply(change)

    async def remove_account(self, cluster: str, removal: Removal) -> None:
        """Delete a record, and what hangs on it."""
        self.apply(removal)

    def apply(self, step: Change | Removal) -> None:
        """Do a step.

        Raises:
            SlurmError: slurmdbd would refuse it.
        """
        if self.trouble or len(self.calls) >= self.most:
            raise self.trouble or SlurmError(Trouble.UNREACHABLE, "slurmrestd is away")
        self.calls.append(str(step))
        if isinstance(step, Removal):
            return self._remove(step.entity)
        entity = step.entity
        assert step.makes == (entity not in self.records), f"{step}: made twice, or not made"
        self._check(entity, step.values)
        record = self.records.setdefault(entity, {"Parent": "root"} if entity.kind is ACCOUNT else {})
        if step.makes and entity.user and not self._default(entity.user):
            record["DefaultAccount"] = "yes"  # Slurm's way with a user's first association.
        if step.values.get("DefaultAccount") == "yes":
            for other in self.records:
                if other.user == entity.user:
                    self.records[other].pop("DefaultAccount", None)
        record |= {word: text for word, text in step.values.items() if word not in self.deaf}
        return None

    def _default(self, user: str) -> bool:
        return any(other.user == user and values.get("DefaultAccount") for other, values in self.records.items())

    def _check(self, entity: Entity, values: Values) -> None:
        for word in ("QOS", "DefaultQOS", "Preempt"):
            for name in filter(None, values.get(word, "").split(",")):
                _refuse(Entity(QOS, name) not in self.records, f"Unable to resolve QOS: {name}")
        parent = values.get("Parent", entity.account if entity.user else "root")
        is_lost = entity.kind is not QOS and Entity(ACCOUNT, parent) not in self.records
        _refuse(is_lost, f"No parent account '{parent}' on cluster 'test'")
        people = {other.user for other in self.records}
        for name in filter(None, values.get("Coordinators", "").split(",")):
            _refuse(name not in people, f"{name}: nobody knows this coordinator")
        stuck = [word for word, text in values.items() if not text and not entity.kind.fields[word].is_kept_empty]
        assert not stuck, f"slurmrestd would not take {stuck} away"

    def _below(self, account: Entity) -> set[Entity]:
        """Return what goes with an account."""
        users = {other for other in self.records if other.user and other.account == account.name}
        accounts = {other for other, values in self.records.items() if values.get("Parent") == account.name}
        return users.union(accounts, *map(self._below, accounts))

    def _remove(self, entity: Entity) -> None:
        _refuse(entity in self.busy, "Job(s) active, cancel job(s) before remove")
        others = [other for other in self.records if other.user == entity.user and other != entity]
        is_default = value(entity, self.records[entity], "DefaultAccount") if entity.user else ""
        _refuse(bool(entity.user and is_default and others), "You can not remove the default account of a user")
        below = self._below(entity) if entity.kind is ACCOUNT else set()
        _refuse(bool(below & self.busy), "Job(s) active, cancel job(s) before remove")
        for gone in (entity, *below):
            del self.records[gone]
        if entity.kind is QOS:
            for record in self.records.values():
                for word in ("QOS", "DefaultQOS", "Preempt"):
                    names: list[str] = [name for name in record.get(word, "").split(",") if name != entity.name]
                    if word in record:
                        record[word] = ",".join(names)


def _refuse(wrong: bool, words: str) -> None:
    if wrong:
        raise SlurmError(Trouble.REFUSED, words)


def records(**kinds: Mapping[str, Values]) -> Records:
    """Records by the keys of spec.accounts."""
    return {Entity(Kind(kind), name): values for kind, named in kinds.items() for name, values in named.items()}
