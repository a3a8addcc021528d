"""slurmrestd as the operator's eyes and hands: every call has a deadline, every doubt is a typed error.

Seen with 26.05: refused changes answer 422 with `errors`, a slurmctld that is away 502 with error 1800, an unknown
node in GET node/NAME 200 with `errors`, and an unchanged listing 304. What grows with nodes or jobs is decoded into
records of the few fields that decisions need; the rest of an answer makes no objects.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import enum
import re
import ssl
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import jwt
import msgspec
from slurm_operator import metrics
from slurm_operator.clients import hostlist
from slurm_operator.state import EVERY_NODE, Facts, Running, SlurmJob, SlurmNode

from contract import names, paths, reasons

DEADLINE_SECONDS = 5.0
LISTING_SECONDS = 30.0
"""What grows with nodes and jobs takes longer, on busy cores too. It is asked for once slurmrestd has answered."""
TOKEN_SECONDS = 240
FULL_LISTING_SECONDS = 60.0
NO_ANSWER = (httpx.HTTPError, httpx.InvalidURL, ExceptionGroup)
"""What httpx raises, for a URL that is none too; the group is anyio's, about a port beyond 65535."""
_SLURMCTLD_AWAY = frozenset({*range(1800, 1806), 1900, *range(5003, 5006)})
"""No connection to slurmctld, or one that it did not answer on to the end (slurm_errno.h)."""
_SOCKETS = re.compile(r"\([^)]*\)")
_UNKNOWN_NODE = frozenset({0, 2018})
"""GET node/NAME of no such node (slurmctld's answer has no record, and no error), and ESLURM_INVALID_NODE_NAME."""
_UNKNOWN_JOB = 2017
"""ESLURM_INVALID_JOB_ID."""
_FELL_SILENT = f" : {reasons.NOT_RESPONDING}"
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

    def __init__(self, reason: Trouble, message: str, numbers: frozenset[int] = frozenset()) -> None:
        super().__init__(message)
        self.reason = reason
        self.numbers = numbers
        """Slurm's own error numbers (slurm_errno.h), if it gave any."""


class _Problem(msgspec.Struct):
    description: str = ""
    error: str = ""
    error_number: int = 0


class _Number(msgspec.Struct, gc=False):
    set: bool = False
    infinite: bool = False
    number: int = 0


class _Answer(msgspec.Struct):
    errors: list[_Problem]


class _Node(msgspec.Struct):
    name: str
    state: list[str]
    reason: str
    reason_set_by_user: str
    alloc_cpus: int
    alloc_memory: int = 0
    comment: str = ""
    cpus: int | None = None
    real_memory: int | None = None
    gres: str = ""
    slurmd_start_time: _Number | None = None
    reason_changed_at: _Number | None = None


class _Nodes(_Answer):
    nodes: list[_Node] | None = None
    last_update: _Number | None = None


class _State(msgspec.Struct, gc=False):
    job_id: str | int
    state: tuple[str, ...]


class _States(_Answer):
    jobs: list[_State] | None = None


class _Job(msgspec.Struct):
    job_id: int
    job_state: list[str]
    nodes: str
    partition: str
    requeue: bool = False
    batch_flag: bool = False
    required_nodes: str = ""
    excluded_nodes: str = ""
    node_count: _Number | None = None
    state_reason: str = ""
    end_time: _Number | None = None
    time_limit: _Number | None = None


class _Jobs(_Answer):
    jobs: list[_Job] | None = None


class _Reservation(msgspec.Struct):
    node_list: str = ""


class _Reservations(_Answer):
    reservations: list[_Reservation] | None = None


class _User(msgspec.Struct):
    name: str
    administrator_level: list[str]


class _Users(_Answer):
    users: list[_User] | None = None


class _Statistics(msgspec.Struct):
    jobs_pending: int
    jobs_running: int
    job_states_ts: _Number
    req_time: _Number | None = None


class _Diagnosis(_Answer):
    statistics: _Statistics | None = None


class _PartitionState(msgspec.Struct):
    state: tuple[str, ...] = ()


class _Partition(msgspec.Struct):
    name: str
    partition: _PartitionState


class _Partitions(_Answer):
    partitions: list[_Partition] | None = None


_A = TypeVar("_A", bound=_Answer)
_T = TypeVar("_T")


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
        seconds = LISTING_SECONDS if full else DEADLINE_SECONDS
        answer = await self._read_as(_Nodes, "nodes", "/nodes/", params, seconds)
        if answer is None:
            if self._nodes is None or not ask_for_changes:
                raise SlurmError(Trouble.UNUSABLE, "nodes: 'not modified' without a question about changes")
            return self._nodes
        if answer.last_update is None or not answer.last_update.set:
            raise SlurmError(Trouble.UNUSABLE, "nodes: the answer does not say when they changed last")
        last_update = answer.last_update.number
        listed = [_node(item) for item in _listed("nodes", answer.nodes)]
        if len({node.name for node in listed}) != len(listed):
            raise SlurmError(Trouble.UNUSABLE, "nodes: a node is listed twice")
        self._nodes = {node.name: node for node in listed}
        self._next_update_time = last_update + 1 if time.time() >= last_update + 2 else last_update
        self._full_listing_at = time.monotonic()
        return self._nodes

    async def job_count(self) -> int | None:
        """Ask slurmctld how many jobs wait and run; it counts them twice a minute. None if it has not counted yet."""
        answer = await self._read_as(_Diagnosis, "diag", "/diag/")
        if answer is None or answer.statistics is None:
            raise SlurmError(Trouble.UNUSABLE, "diag: the answer does not say how many jobs there are")
        counted = answer.statistics
        return counted.jobs_pending + counted.jobs_running if counted.job_states_ts.number else None

    async def time_there(self) -> datetime.datetime | None:
        """Ask slurmctld what time it is there; None if it does not say."""
        answer = await self._read_as(_Diagnosis, "diag", "/diag/")
        return _since(answer.statistics.req_time) if answer and answer.statistics else None

    async def job_states(self) -> list[tuple[str, frozenset[str]]]:
        """List the states of all jobs by id, each task of an array and each component of a heterogeneous job apart.

        Seen with 26.05: 10,000 jobs cost slurmrestd 20 MiB and a quarter of a second; in full (GET jobs/) they cost it
        1.4 GiB, with any flags. To free the answer it takes time that grows with the square of the number: 100,000
        states cost minutes. Ask job_count() first.
        """
        answer = await self._read_as(_States, "job_states", "/jobs/state/", seconds=LISTING_SECONDS)
        if answer is None:
            raise SlurmError(Trouble.UNUSABLE, "jobs: 'not modified' without a question about changes")
        # Few combinations of states are shared by many jobs.
        known: dict[tuple[str, ...], frozenset[str]] = {}
        listed = _listed("jobs", answer.jobs)
        return [(str(each.job_id), known.setdefault(each.state, _states("jobs", each.state))) for each in listed]

    async def job(self, number: str) -> Sequence[SlurmJob]:
        """Read a job, all its components if it is heterogeneous; nothing if slurmctld has forgotten it."""
        try:
            answer = await self._read_as(_Jobs, "job", f"/job/{quote(number, safe='')}")
        except SlurmError as error:
            if error.reason is Trouble.REFUSED and _UNKNOWN_JOB in error.numbers:
                return ()
            raise
        return [_job(item) for item in _listed("job", answer.jobs if answer else None)]

    async def partitions(self) -> frozenset[str]:
        """Names of the partitions that slurmctld has."""
        answer = await self._read_as(_Partitions, "partitions", "/partitions/")
        return frozenset(each.name for each in _listed("partitions", answer.partitions if answer else None))

    async def reserved(self) -> frozenset[str]:
        """List the nodes that any reservation names, now or for later."""
        answer = await self._read_as(_Reservations, "reservations", "/reservations/")
        listed = _listed("reservations", answer.reservations if answer else None)
        try:
            return frozenset().union(*(hostlist.expand(each.node_list) for each in listed))
        except ValueError as error:
            raise SlurmError(Trouble.UNUSABLE, f"reservations: {error}") from error

    async def node(self, name: str) -> SlurmNode | None:
        """Read one node anew, None if Slurm says that it has no such record; any other refusal is an error."""
        try:
            answer = await self._read_as(_Nodes, "node", _node_path(name))
        except SlurmError as error:
            if error.reason is Trouble.REFUSED and error.numbers and error.numbers <= _UNKNOWN_NODE:
                return None
            raise
        listed = [_node(item) for item in _listed("node", answer.nodes if answer else None)]
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
        answer = await self._read("conf", "/conf")
        try:
            shown, started = answer["slurm_conf"], _moment(int(answer["slurm_conf_meta"]["BOOT_TIME"]))
            communication = frozenset(str(word).lower() for word in shown.get("CommunicationParameters") or ())
            counts_memory = any("memory" in str(word).lower() for word in shown.get("SelectTypeParameters") or ())
            return Running(",".join(shown["SlurmctldParameters"]), started, communication, counts_memory)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SlurmError(Trouble.UNUSABLE, f"conf: the answer holds no configuration: {error}") from error

    async def partition_state(self, name: str) -> str:
        """Read whether a partition takes jobs (UP), finishes those that it has (DRAIN) …, empty if there is none."""
        answer = await self._read_as(_Partitions, "partition", f"/partition/{quote(name, safe='')}")
        # An unknown one is a warning, and no list.
        found = (answer.partitions if answer else None) or []
        return next(iter(_states(name, found[0].partition.state))) if found else ""

    async def set_partition(self, name: str, state: str) -> None:
        """Set a partition's state until slurmctld reads its files again."""
        wanted = {"name": name, "partition": {"state": [state]}}
        await self._call("set_partition", "POST", "/partitions/", {"partitions": [wanted]})

    async def administrators(self) -> dict[str, str]:
        """Ask slurmdbd who administers Slurm: name → AdminLevel, Administrator or Operator."""
        answer = await self._read_as(_Users, "administrators", f"{names.REST_DATABASE_API}/users/")
        levels = {user.name: user.administrator_level for user in _listed("users", answer.users if answer else None)}
        return {name: word for name, (word, *_) in levels.items() if word in ("Administrator", "Operator")}

    async def appoint(self, levels: Mapping[str, str]) -> None:
        """Set AdminLevels in slurmdbd, which makes users that it does not know."""
        users = [{"name": name, "administrator_level": [level]} for name, level in levels.items()]
        await self._call("appoint", "POST", f"{names.REST_DATABASE_API}/users/", {"users": users})

    async def _read(self, call: str, path: str) -> dict[str, Any]:
        """Read an answer that is small, all of it."""
        content = await self._fetch(call, path, {}, DEADLINE_SECONDS)
        return dict(_decoded(call, content, dict[str, Any])) if content else {}

    async def _read_as(
        self,
        kind: type[_A],
        call: str,
        path: str,
        params: Mapping[str, str] | None = None,
        seconds: float = DEADLINE_SECONDS,
    ) -> _A | None:
        """Read what one kind of answer has of interest, None for 'not modified'."""
        content = await self._fetch(call, path, params or {}, seconds)
        return None if content is None else _decoded(call, content, kind)

    async def _fetch(self, call: str, path: str, params: Mapping[str, str], seconds: float) -> bytes | None:
        """Ask, a second time if slurmrestd was away or the token was not accepted; a long wait is not begun again."""
        began = time.monotonic()
        try:
            return await self._call(call, "GET", path, params=params, seconds=seconds)
        except SlurmError as error:
            again = error.reason in (Trouble.UNREACHABLE, Trouble.FORBIDDEN)
            if not again or time.monotonic() - began > 2 * DEADLINE_SECONDS:
                raise
        self._token = ("", 0.0)
        await asyncio.sleep(0.2)
        return await self._call(call, "GET", path, params=params, seconds=seconds)

    async def _call(
        self,
        call: str,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
        seconds: float = DEADLINE_SECONDS,
    ) -> bytes | None:
        try:
            with metrics.REST.labels(call).time():
                return _checked(call, await self._request(method, path, body, params, seconds))
        except SlurmError as error:
            metrics.REST_ERRORS.labels(call, error.reason).inc()
            raise

    async def _request(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None,
        params: Mapping[str, str] | None,
        seconds: float,
    ) -> httpx.Response:
        try:
            headers = {"X-SLURM-USER-TOKEN": self._user_token()}
            # httpx limits each read; a server that drips bytes is stopped by the limit on the whole.
            async with asyncio.timeout(seconds):
                api = "" if path.startswith(names.REST_DATABASE_API) else names.REST_API
                url = self.url + api + path
                return await self._client.request(
                    method, url, params=params, json=body, headers=headers, timeout=seconds
                )
        except (*NO_ANSWER, TimeoutError) as error:
            if distrust := _distrust(error):
                raise SlurmError(Trouble.UNTRUSTED, f"{self.url}: {self._whose_fault(distrust)}") from error
            what = "no answer in time" if isinstance(error, TimeoutError | httpx.TimeoutException) else str(error)
            raise SlurmError(Trouble.UNREACHABLE, f"{self.url}: {what or type(error).__name__}") from error
        except OSError as error:
            raise SlurmError(Trouble.FORBIDDEN, f"the key for tokens cannot be read: {error}") from error

    def _whose_fault(self, distrust: ssl.SSLCertVerificationError) -> str:
        if self.authority is None:
            return f"there is no CA in {paths.REST_AUTHORITY_FILE} to trust; is the Secret with the certificate there?"
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


def _checked(call: str, answer: httpx.Response) -> bytes | None:
    """Return the body of an answer without errors, None for 'not modified'."""
    if answer.status_code == httpx.codes.NOT_MODIFIED:
        return None
    if answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        raise SlurmError(Trouble.FORBIDDEN, f"{call}: slurmrestd does not accept our token ({answer.status_code})")
    try:
        errors = msgspec.json.decode(answer.content, type=_Answer).errors
    except msgspec.ValidationError as error:
        shape = f"{call}: HTTP {answer.status_code} with an answer of another shape: {error}"
        raise SlurmError(Trouble.UNUSABLE, shape) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            away = f"{call}: the proxy in front of slurmrestd does not reach it"
            raise SlurmError(Trouble.UNREACHABLE, away) from error
        no_json = f"{call}: HTTP {answer.status_code} with an answer that is no JSON"
        raise SlurmError(Trouble.UNUSABLE, no_json) from error
    if errors:
        words = "; ".join(f"{error.description}: {error.error}" for error in errors)
        numbers = frozenset(error.error_number for error in errors)
        is_away = bool(numbers & _SLURMCTLD_AWAY)
        raise SlurmError(Trouble.CONTROLLER_AWAY if is_away else Trouble.REFUSED, words, numbers)
    if answer.is_error:
        silent = f"{call}: HTTP {answer.status_code} without the errors that the API promises"
        raise SlurmError(Trouble.UNUSABLE, silent)
    return answer.content


def _decoded(call: str, content: bytes, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SlurmError(Trouble.UNUSABLE, f"{call}: {error}") from error


def _listed(call: str, items: list[_T] | None) -> list[_T]:
    if items is None:
        raise SlurmError(Trouble.UNUSABLE, f"{call}: the answer holds no list of them")
    return items


def _node(item: _Node) -> SlurmNode:
    return SlurmNode(
        name=item.name,
        states=_states(item.name, item.state),
        reason=item.reason.removesuffix(_FELL_SILENT),
        reason_user=item.reason_set_by_user,
        allocated_cpus=item.alloc_cpus,
        started=_since(item.slurmd_start_time),
        reason_set=_since(item.reason_changed_at),
        comment=item.comment,
        facts=_facts(item),
        allocated_memory=item.alloc_memory,
    )


def _facts(item: _Node) -> Facts | None:
    """A record's size; Slurm adds to Gres which sockets it found them at."""
    if item.cpus is None or item.real_memory is None:
        return None
    gres = _SOCKETS.sub("", item.gres)
    return Facts(item.cpus, item.real_memory, "" if gres == "(null)" else gres)


def _job(item: _Job) -> SlurmJob:
    named = [_nodes_or_every(item.required_nodes), _nodes_or_every(item.excluded_nodes)]
    return SlurmJob(
        job_id=item.job_id,
        states=_states(str(item.job_id), item.job_state),
        partitions=frozenset(item.partition.split(",")) - {""},
        nodes=_nodes_or_every(item.nodes),
        requeues=item.requeue and item.batch_flag,
        names=EVERY_NODE if any(each is EVERY_NODE for each in named) else frozenset().union(*named),
        node_count=max(1, item.node_count.number) if item.node_count else 1,
        waits_for=item.state_reason,
        # Without a limit Slurm counts a year.
        ends=_since(item.end_time) if item.time_limit is None or not item.time_limit.infinite else None,
    )


def _nodes_or_every(words: str) -> frozenset[str]:
    """The nodes of a hostlist; what nobody can read may be any."""
    try:
        return hostlist.expand(words)
    except ValueError:
        return EVERY_NODE


def _since(value: _Number | None) -> datetime.datetime | None:
    return _moment(value.number) if value is not None and value.number else None


def _moment(seconds: int) -> datetime.datetime:
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    except (OverflowError, ValueError, OSError) as error:
        raise SlurmError(Trouble.UNUSABLE, f"{seconds} is no time: {error}") from error


def _states(of: str, states: Sequence[str]) -> frozenset[str]:
    if not states:
        raise SlurmError(Trouble.UNUSABLE, f"{of} has no state")
    return frozenset(states)
