"""slurmrestd's records of QOS, accounts and associations, read as text and written from it.

Seen with 26.05: of a QOS, flags and preempt mode must be said again in each change. A count of -1 takes a TRES away. Of
an association, all TRES must be said again, and an empty list of QOS leaves them as they are. A list with an empty name
ends slurmrestd. A resource or a user that Slurm does not know is left out without an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from contract import accounts as slurms
from contract.accounts import Field
from contract.accounts import Kind as Form
from slurm_operator.accounts import Database, Entity, Kind, Other, Values
from slurm_operator.clients.slurm.slurm_error import SlurmError, Trouble
from slurm_operator.clients.slurm.slurmrestd_answers import Answer, Users, decoded, listed
from slurm_operator.decide.cluster.accounts import Change, Removal

OWN_LIMITS: Mapping[str, str] = {"Exclude limits from parents": "true"}
"""Parameters of GET associations/: without them an association shows what it inherits as its own."""
COORDINATORS: Mapping[str, str] = {"WithCoordinators": "true"}
"""Parameters of GET accounts/."""
_FLAGS = {theirs: ours for ours, theirs in slurms.QOS_FLAGS.items()}
_OFF = "DISABLED"
"""A QOS without a preempt mode of its own."""
_SET_KEYS = {"QOS": "qoslevel", "MinPrioThreshold": "minpriothresh"}
"""Words whose key in a new association's limits is another than the word in lower case."""
Json = dict[str, Any]


class Qos(Answer):
    """An answer about QOS."""

    qos: list[Json] | None = None


class Accounts(Answer):
    """An answer about accounts."""

    accounts: list[Json] | None = None


class Associations(Answer):
    """An answer about associations, which are decoded one by one: there may be thousands."""

    associations: list[msgspec.Raw] | None = None


def database(
    cluster: str, qos: Qos | None, accounts: Accounts | None, associations: Associations | None, users: Users | None
) -> Database:
    """Return what slurmdbd has, as a cluster sees it."""
    records = {
        Entity(Kind.QOS, item["name"]): _values(slurms.QOS, item) for item in listed("qos", qos.qos if qos else None)
    }
    of_accounts = {item["name"]: item for item in listed("accounts", accounts.accounts if accounts else None)}
    others = list[Other]()
    for raw in listed("associations", associations.associations if associations else None):
        item = decoded("associations", raw, Json)
        account, user = item["account"], item["user"]
        if item["cluster"] != cluster or item["partition"]:
            others.append(_other(item, cluster))
        elif user:
            records[Entity(Kind.USER, f"{account}/{user}")] = _values(slurms.USER, item)
        else:
            records[Entity(Kind.ACCOUNT, account)] = _values(slurms.ACCOUNT, {**of_accounts.get(account, {}), **item})
    known = listed("users", users.users if users else None)
    administrators = (user.name for user in known if user.administrator_level not in (["None"], ["Not Set"]))
    return Database(records, tuple(others), frozenset(administrators))


def _other(item: Json, cluster: str) -> Other:
    title = f"user {item['user']} in {item['account']}" if item["user"] else f"account {item['account']}"
    title += f" with partition {item['partition']}" if item["partition"] else ""
    is_elsewhere = item["cluster"] != cluster
    title += f" of cluster {item['cluster']}" if is_elsewhere else ""
    qos = {*item["qos"], item["default"]["qos"]} - {""}
    return Other(title, item["account"], item["user"], frozenset(qos), elsewhere=is_elsewhere)


def _values(fields: Mapping[str, Field], item: Json) -> Values:
    """The values that are not the default ones."""
    try:
        all_values = {word: _text(field, _at(item, field.path)) for word, field in fields.items()}
    except (KeyError, TypeError, ValueError) as error:
        raise SlurmError(Trouble.UNUSABLE, f"accounts: a record of another shape: {error!r}") from error
    return {word: text for word, text in all_values.items() if text != fields[word].default}


def _at(item: Any, path: Iterable[str]) -> Any:
    for key in path:
        item = item[key]
    return item


def _text(field: Field, seen: Any) -> str:
    match field.kind:
        case Form.COUNT | Form.MINUTES | Form.SECONDS:
            return str(seen["number"]) if seen["set"] and not seen["infinite"] else ""
        case Form.FACTOR:
            return format(seen["number"], "g") if seen["set"] and not seen["infinite"] else ""
        case Form.SHARES:
            return "parent" if seen == slurms.PARENT_SHARES else str(seen)
        case Form.TRES:
            return ",".join(sorted(f"{_resource(part)}={part['count']}" for part in seen))
        case Form.NAMES:
            return ",".join(sorted(_names(seen)))
        case Form.MODE:
            return ",".join(word.lower() for word in seen if word not in (_OFF, "GANG"))
        case Form.FLAGS:
            return ",".join(sorted(_FLAGS.get(word, word) for word in seen))
    if isinstance(seen, bool):
        return slurms.YES if seen else ""
    return str(seen)


def _resource(part: Json) -> str:
    return f"{part['type']}/{part['name']}" if part["name"] else str(part["type"])


def _names(seen: Iterable[Any]) -> Iterator[str]:
    """Yield the names in a list of slurmdbd's: of QOS, or of coordinators that no account above brings."""
    for item in seen:
        if isinstance(item, str):
            yield item
        elif item["direct"]:
            yield item["name"]


def requests(cluster: str, change: Change) -> Iterator[tuple[str, Json]]:
    """Yield what to POST for a change, each with its path below the database's API."""
    entity, values, before = change.entity, change.values, change.before
    if entity.kind is Kind.QOS:
        yield "/qos/", {"qos": [_qos(entity.name, values, before)]}
        return
    if change.makes:
        yield _new(cluster, entity, values)
        return
    record = {word: text for word, text in values.items() if word in slurms.ACCOUNT_RECORD and not entity.user}
    if record:
        yield "/accounts/", {"accounts": [_account(entity.name, {**before, **record})]}
    if len(record) < len(values):
        yield "/associations/", {"associations": [_association(cluster, entity, values, before)]}


def deletion(cluster: str, removal: Removal) -> tuple[str, dict[str, str]]:
    """Return what to DELETE: a path below the database's API, and its parameters."""
    entity = removal.entity
    if removal.whole:
        return f"/user/{quote(entity.user, safe='')}", {}
    if entity.kind is Kind.USER:
        # An empty partition stands for the association that is for none.
        named = {"account": entity.account, "user": entity.user, "cluster": cluster, "partition": ""}
        return "/association/", named
    return f"/{'qos' if entity.kind is Kind.QOS else 'account'}/{quote(entity.name, safe='')}", {}


def _qos(name: str, values: Values, before: Values) -> Json:
    said = {"PreemptMode": before.get("PreemptMode", ""), "Flags": before.get("Flags", ""), **values}
    record: Json = {"name": name}
    for word, text in said.items():
        field = slurms.QOS[word]
        gone = _counts(before.get(word, "")).keys() - _counts(text).keys() if field.kind is Form.TRES else ()
        seen = _json(field, text)
        _put(record, field.path, [*seen, *(_tres(resource, -1) for resource in sorted(gone))] if gone else seen)
    return record


def _new(cluster: str, entity: Entity, values: Values) -> tuple[str, Json]:
    record_words = {slurms.PARENT, slurms.DEFAULT_ACCOUNT, *slurms.ACCOUNT_RECORD}
    limits = {
        _SET_KEYS.get(word, word.lower()): _json(entity.kind.fields[word], text)
        for word, text in values.items()
        if word not in record_words
    }
    named: Json = {"accounts": [entity.account], "clusters": [cluster]}
    if entity.user:
        default = {"defaultaccount": entity.account} if values.get(slurms.DEFAULT_ACCOUNT) else {}
        of_user = {**named, "users": [entity.user], "association": limits}
        return "/users_association/", {"association_condition": of_user, "user": default}
    limits["parent"] = values[slurms.PARENT]
    texts = {word.lower(): values.get(word, entity.name) for word in (slurms.DESCRIPTION, slurms.ORGANIZATION)}
    return "/accounts_association/", {"association_condition": {**named, "association": limits}, "account": texts}


def _account(name: str, values: Values) -> Json:
    coordinators = [{"name": user} for user in values.get(slurms.COORDINATORS, "").split(",") if user]
    texts = {word.lower(): values.get(word, name) for word in (slurms.DESCRIPTION, slurms.ORGANIZATION)}
    return {"name": name, **texts, "coordinators": coordinators}


def _association(cluster: str, entity: Entity, values: Values, before: Values) -> Json:
    fields = entity.kind.fields
    record: Json = {"account": entity.account, "user": entity.user, "cluster": cluster, "partition": "", "qos": []}
    for word, field in fields.items():
        if word in slurms.ACCOUNT_RECORD:
            continue
        if word in values or (field.kind is Form.TRES and word in before):
            _put(record, field.path, _json(field, values.get(word, before.get(word, ""))))
    return record


def _json(field: Field, text: str) -> Any:
    match field.kind:
        case Form.COUNT | Form.MINUTES | Form.SECONDS | Form.FACTOR:
            number = float(text or 0) if field.kind is Form.FACTOR else int(text or 0)
            return {"set": True, "infinite": not text, "number": number}
        case Form.SHARES:
            return slurms.PARENT_SHARES if text == "parent" else int(text)
        case Form.PLAIN_SECONDS:
            return int(text)
        case Form.TRES:
            return [_tres(resource, count) for resource, count in _counts(text).items()]
        case Form.NAMES:
            return [name for name in text.split(",") if name]
        case Form.MODE:
            return [text.upper() or _OFF]
        case Form.FLAGS:
            return [slurms.QOS_FLAGS.get(flag, flag) for flag in text.split(",") if flag]
    return text == slurms.YES if field.path == ("is_default",) else text


def _counts(text: str) -> dict[str, int]:
    pairs = (part.rpartition("=") for part in text.split(",") if part)
    return {resource: int(count) for resource, _, count in pairs}


def _tres(resource: str, count: int) -> Json:
    kind, _, name = resource.partition("/")
    return {"type": kind, "name": name, "count": count}


def _put(record: Json, path: tuple[str, ...], seen: Any) -> None:
    *parents, last = path
    for key in parents:
        record = record.setdefault(key, {})
    record[last] = seen
