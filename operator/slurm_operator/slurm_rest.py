"""slurmrestd as the operator's eyes and hands: every call has a deadline, every doubt is a typed error.

Seen with 26.05: refused changes answer 422 with `errors`, a slurmctld that is away 502 with error 1800, an unknown
node in GET node/NAME 200 with `errors`, and an unchanged listing 304.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import enum
import re
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import jwt

from slurm_operator import hostlist, metrics, names
from slurm_operator.seen import Facts, Running, SlurmJob, SlurmNode

DEADLINE_SECONDS = 5.0
TOKEN_SECONDS = 240
FULL_LISTING_SECONDS = 60.0
NO_ANSWER = (httpx.HTTPError, httpx.InvalidURL, ExceptionGroup)
"""What httpx raises, for a URL that is none too; the group is anyio's, about a port beyond 65535."""
_SLURMCTLD_AWAY = frozenset({*range(1800, 1806), 1900, *range(5003, 5006)})
"""No connection to slurmctld, or one that it did not answer on to the end (slurm_errno.h)."""
_NAMES_NONE = {"required_nodes": "", "excluded_nodes": ""}
_SOCKETS = re.compile(r"\([^)]*\)")
_FELL_SILENT = " : Not responding"
"""What slurmctld adds, for good, to the reason of a drained node that it heard nothing of for SlurmdTimeout."""


class Trouble(enum.StrEnum):
    """Why Slurm could not be seen or changed, as the word for a condition."""

    UNREACHABLE = "RestUnreachable"
    """slurmrestd refused the connection or did not answer in time."""
    UNTRUSTED = "RestUntrusted"
    """slurmrestd's certificate is not one that we trust, so that nothing was said to it."""
    CONTROLLER_AWAY = "SlurmctldUnreachable"
    """slurmrestd answers, slurmctld does not."""
    FORBIDDEN = "RestUnauthorized"
    """Our token was not accepted."""
    UNUSABLE = "RestAnswerUnusable"
    """The answer is not what the API promises."""
    REFUSED = "SlurmRefused"
    """Slurm answered with errors."""


class SlurmError(Exception):
    """Slurm could not be seen or changed."""

    def __init__(self, reason: Trouble, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class SlurmRest:
    """One cluster's slurmrestd."""

    def __init__(self, url: str, key_file: Path, authority: bytes | None = None) -> None:
        self.url = url
        self.authority = authority
        self._key_file = key_file
        self._client = httpx.AsyncClient(trust_env=False, verify=_trust(authority))
        self._token = ("", 0.0)
        self._nodes: dict[str, SlurmNode] | None = None
        self._next_update_time = 0
        self._full_listing_at = 0.0

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def nodes(self, *, full: bool) -> Mapping[str, SlurmNode]:
        """List all nodes; unless `full`, an unchanged listing costs slurmctld nothing (HTTP 304).

        The comparison in slurmctld has a resolution of one second: asking for changes after the last one is right only
        if that answer was read two seconds or more after it, else a change in the same second would be missed.
        """
        due = time.monotonic() - self._full_listing_at > FULL_LISTING_SECONDS
        ask_for_changes = not full and not due and self._nodes is not None
        params = {"update_time": str(self._next_update_time)} if ask_for_changes else {}
        answer = await self._read("nodes", "/nodes/", params)
        if answer is None:
            if self._nodes is None or not ask_for_changes:
                raise SlurmError(Trouble.UNUSABLE, "nodes: 'not modified' without a question about changes")
            return self._nodes
        last_update = _number(answer.get("last_update"), "last_update")
        listed = [_node(item) for item in _items(answer, "nodes")]
        if len({node.name for node in listed}) != len(listed):
            raise SlurmError(Trouble.UNUSABLE, "nodes: a node is listed twice")
        self._nodes = {node.name: node for node in listed}
        self._next_update_time = last_update + 1 if time.time() >= last_update + 2 else last_update
        self._full_listing_at = time.monotonic()
        return self._nodes

    async def jobs(self) -> tuple[SlurmJob, ...]:
        """List all jobs that slurmctld knows."""
        answer = await self._read("jobs", "/jobs/")
        if answer is None:
            raise SlurmError(Trouble.UNUSABLE, "jobs: 'not modified' without a question about changes")
        return tuple(_job(item) for item in _items(answer, "jobs"))

    async def reserved(self) -> frozenset[str]:
        """List the nodes that any reservation names, now or for later."""
        answer = await self._read("reservations", "/reservations/") or {}
        return frozenset().union(*(_nodes_of(item, "node_list") for item in _items(answer, "reservations")))

    async def node(self, name: str) -> SlurmNode | None:
        """Read one node anew, None if Slurm has no such record."""
        try:
            answer = await self._read("node", _node_path(name))
        except SlurmError as error:
            if error.reason is Trouble.REFUSED:
                return None
            raise
        listed = [_node(item) for item in _items(answer or {}, "nodes")]
        return next((node for node in listed if node.name == name), None)

    async def drain(self, name: str, reason: str) -> None:
        """Give a node no new jobs."""
        await self._call("drain", "POST", _node_path(name), {"state": ["DRAIN"], "reason": reason})

    async def keep_out(self, name: str) -> None:
        """Drain a node without a reason: who set its reason, and what it says, stay as they are."""
        await self._call("keep_out", "POST", _node_path(name), {"state": ["DRAIN"]})

    async def take_down(self, name: str, reason: str) -> None:
        """Take a node's jobs from it: those that may are requeued, the others end (NODE_FAIL); a drain stays."""
        await self._call("take_down", "POST", _node_path(name), {"state": ["DOWN"], "reason": reason})

    async def undrain(self, name: str) -> None:
        """Lift a drain; unlike RESUME it leaves a DOWN node down."""
        await self._call("undrain", "POST", _node_path(name), {"state": ["UNDRAIN"]})

    async def comment(self, name: str, text: str) -> None:
        """Write a note on a node, which has no effect; an empty one takes it away."""
        await self._call("comment", "POST", _node_path(name), {"comment": text})

    async def delete_node(self, name: str) -> None:
        """Delete a node's record; Slurm refuses while jobs or reservations use it."""
        await self._call("delete_node", "DELETE", _node_path(name))

    async def reconfigure(self) -> None:
        """Tell slurmctld to read its files. It answers before it has read them, so success shows in what follows."""
        await self._call("reconfigure", "GET", "/reconfigure/")
        self._nodes = None

    async def running(self) -> Running:
        """Ask slurmctld what it runs with."""
        answer = await self._read("conf", "/conf") or {}
        try:
            shown, started = answer["slurm_conf"], _moment(_count(answer["slurm_conf_meta"], "BOOT_TIME"))
            communication = frozenset(str(word).lower() for word in shown.get("CommunicationParameters") or ())
            return Running(",".join(shown["SlurmctldParameters"]), started, communication)
        except (KeyError, TypeError, AttributeError) as error:
            raise SlurmError(Trouble.UNUSABLE, f"conf: the answer holds no configuration: {error}") from error

    async def partition_state(self, name: str) -> str:
        """Read whether a partition takes jobs (UP), finishes those that it has (DRAIN) …, empty if there is none."""
        answer = await self._read("partition", f"/partition/{quote(name, safe='')}") or {}
        # An unknown one is a warning, and no list.
        found = _items({"partitions": [], **answer}, "partitions")
        return next(iter(_states(found[0].get("partition", {}), "state"))) if found else ""

    async def set_partition(self, name: str, state: str) -> None:
        """Set a partition's state until slurmctld reads its files again."""
        wanted = {"name": name, "partition": {"state": [state]}}
        await self._call("set_partition", "POST", "/partitions/", {"partitions": [wanted]})

    async def administrators(self) -> dict[str, str]:
        """Ask slurmdbd who administers Slurm: name → AdminLevel, Administrator or Operator."""
        answer = await self._read("administrators", f"{names.REST_DATABASE_API}/users/") or {}
        levels = {_text(user, "name"): _states(user, "administrator_level") for user in _items(answer, "users")}
        return {name: level for name, (level, *_) in levels.items() if level in ("Administrator", "Operator")}

    async def appoint(self, levels: Mapping[str, str]) -> None:
        """Set AdminLevels in slurmdbd, which makes users that it does not know."""
        users = [{"name": name, "administrator_level": [level]} for name, level in levels.items()]
        await self._call("appoint", "POST", f"{names.REST_DATABASE_API}/users/", {"users": users})

    async def _read(self, call: str, path: str, params: dict[str, str] | None = None) -> dict[str, Any] | None:
        """Read, a second time if slurmrestd was away or the token was not accepted."""
        try:
            return await self._call(call, "GET", path, params=params)
        except SlurmError as error:
            if error.reason not in (Trouble.UNREACHABLE, Trouble.FORBIDDEN):
                raise
        self._token = ("", 0.0)
        await asyncio.sleep(0.2)
        return await self._call(call, "GET", path, params=params)

    async def _call(
        self,
        call: str,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        params: dict[str, str] | None = None,
    ) -> dict[str, Any] | None:
        try:
            with metrics.REST.labels(call).time():
                return _checked(call, await self._request(method, path, body, params))
        except SlurmError as error:
            metrics.REST_ERRORS.labels(call, error.reason).inc()
            raise

    async def _request(
        self, method: str, path: str, body: dict[str, Any] | None, params: dict[str, str] | None
    ) -> httpx.Response:
        try:
            headers = {"X-SLURM-USER-TOKEN": self._user_token()}
            # httpx limits each read; a server that drips bytes is stopped by the limit on the whole.
            async with asyncio.timeout(DEADLINE_SECONDS):
                api = "" if path.startswith(names.REST_DATABASE_API) else names.REST_API
                url = self.url + api + path
                return await self._client.request(method, url, params=params, json=body, headers=headers)
        except (*NO_ANSWER, TimeoutError) as error:
            if distrust := _distrust(error):
                raise SlurmError(Trouble.UNTRUSTED, f"{self.url}: {self._whose_fault(distrust)}") from error
            what = "no answer in time" if isinstance(error, TimeoutError | httpx.TimeoutException) else str(error)
            raise SlurmError(Trouble.UNREACHABLE, f"{self.url}: {what or type(error).__name__}") from error
        except OSError as error:
            raise SlurmError(Trouble.FORBIDDEN, f"the key for tokens cannot be read: {error}") from error

    def _whose_fault(self, distrust: ssl.SSLCertVerificationError) -> str:
        if self.authority is None:
            return f"there is no CA in {names.REST_AUTHORITY_FILE} to trust; is the Secret with the certificate there?"
        return f"its certificate is not trusted: {distrust.verify_message}"

    def _user_token(self) -> str:
        token, expires = self._token
        now = time.time()
        if now >= expires - TOKEN_SECONDS / 2:
            expires = now + TOKEN_SECONDS
            claims = {"iat": int(now) - 5, "exp": int(expires), "sun": names.SLURM_USER}
            token = jwt.encode(claims, self._key_file.read_bytes(), algorithm="HS256")
            self._token = (token, expires)
        return token


def _node_path(name: str) -> str:
    return f"/node/{quote(name, safe='')}"


def _trust(authority: bytes | None) -> ssl.SSLContext:
    """Trust one CA and no other; what is no CA trusts nobody, which every call then says."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # It checks certificate and host name, and knows no CA yet.
    with contextlib.suppress(ssl.SSLError, UnicodeDecodeError, ValueError):
        context.load_verify_locations(cadata=(authority or b"").decode())
    return context


def _distrust(error: BaseException) -> ssl.SSLCertVerificationError | None:
    """The refusal of a certificate among an error's causes."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    return cause


def _checked(call: str, answer: httpx.Response) -> dict[str, Any] | None:
    """Return the answer's object, None for 'not modified'."""
    if answer.status_code == httpx.codes.NOT_MODIFIED:
        return None
    if answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        raise SlurmError(Trouble.FORBIDDEN, f"{call}: slurmrestd does not accept our token ({answer.status_code})")
    try:
        parsed = answer.json()
    except ValueError as error:
        if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            raise SlurmError(
                Trouble.UNREACHABLE, f"{call}: the proxy in front of slurmrestd does not reach it"
            ) from error
        raise SlurmError(
            Trouble.UNUSABLE, f"{call}: HTTP {answer.status_code} with an answer that is no JSON"
        ) from error
    if not isinstance(parsed, dict) or not isinstance(parsed.get("errors", []), list):
        raise SlurmError(Trouble.UNUSABLE, f"{call}: HTTP {answer.status_code} with an answer of another shape")
    errors = [error for error in parsed.get("errors", []) if isinstance(error, dict)]
    if errors:
        words = "; ".join(f"{error.get('description', '')}: {error.get('error', '')}" for error in errors)
        away = any(error.get("error_number") in _SLURMCTLD_AWAY for error in errors)
        raise SlurmError(Trouble.CONTROLLER_AWAY if away else Trouble.REFUSED, words)
    if answer.is_error or "errors" not in parsed:
        raise SlurmError(
            Trouble.UNUSABLE, f"{call}: HTTP {answer.status_code} without the errors that the API promises"
        )
    return parsed


def _items(answer: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    items = answer.get(key)
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise SlurmError(Trouble.UNUSABLE, f"{key}: the answer holds no list of them")
    return items


def _node(item: Mapping[str, Any]) -> SlurmNode:
    return SlurmNode(
        name=_text(item, "name"),
        states=_states(item, "state"),
        reason=_text(item, "reason").removesuffix(_FELL_SILENT),
        reason_user=_text(item, "reason_set_by_user"),
        allocated_cpus=_count(item, "alloc_cpus"),
        started=_since(item.get("slurmd_start_time")),
        reason_set=_since(item.get("reason_changed_at")),
        comment=_text({"comment": "", **item}, "comment"),
        facts=_facts(item),
    )


def _facts(item: Mapping[str, Any]) -> Facts | None:
    """A record's size; Slurm adds to Gres which sockets it found them at."""
    if "cpus" not in item or "real_memory" not in item:
        return None
    gres = _SOCKETS.sub("", str(item.get("gres", "")))
    return Facts(_count(item, "cpus"), _count(item, "real_memory"), "" if gres == "(null)" else gres)


def _job(item: Mapping[str, Any]) -> SlurmJob:
    return SlurmJob(
        job_id=_count(item, "job_id"),
        states=_states(item, "job_state"),
        partitions=frozenset(_text(item, "partition").split(",")) - {""},
        nodes=_nodes_of(item, "nodes"),
        requeues=bool(item.get("requeue")) and bool(item.get("batch_flag")),
        names=_nodes_of({**_NAMES_NONE, **item}, "required_nodes")
        | _nodes_of({**_NAMES_NONE, **item}, "excluded_nodes"),
    )


def _nodes_of(item: Mapping[str, Any], key: str) -> frozenset[str]:
    try:
        return hostlist.expand(_text(item, key))
    except ValueError as error:
        raise SlurmError(Trouble.UNUSABLE, f"{key}: {error}") from error


def _since(value: object) -> datetime.datetime | None:
    seconds = value.get("number") if isinstance(value, dict) else None
    return _moment(seconds) if isinstance(seconds, int) and seconds else None


def _moment(seconds: int) -> datetime.datetime:
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    except (OverflowError, ValueError, OSError) as error:
        raise SlurmError(Trouble.UNUSABLE, f"{seconds} is no time: {error}") from error


def _states(item: Mapping[str, Any], key: str) -> frozenset[str]:
    states = item.get(key)
    if not isinstance(states, list) or not states or not all(isinstance(state, str) for state in states):
        raise SlurmError(Trouble.UNUSABLE, f"{key}: {states!r} is no list of states")
    return frozenset(states)


def _text(item: Mapping[str, Any], key: str) -> str:
    text = item.get(key)
    if not isinstance(text, str):
        raise SlurmError(Trouble.UNUSABLE, f"{key}: {text!r} is no text")
    return text


def _count(item: Mapping[str, Any], key: str) -> int:
    count = item.get(key)
    if not isinstance(count, int):
        raise SlurmError(Trouble.UNUSABLE, f"{key}: {count!r} is no number")
    return count


def _number(value: object, key: str) -> int:
    """Read Slurm's {set, infinite, number}."""
    if not isinstance(value, dict) or not value.get("set") or not isinstance(value.get("number"), int):
        raise SlurmError(Trouble.UNUSABLE, f"{key}: {value!r} is no number")
    return int(value["number"])
