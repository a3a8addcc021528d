"""Asks slurmrestd, and has it change Slurm.

Seen with 26.05: an unknown node in GET node/NAME answers 200 with `errors`.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from contract import names
from slurm_operator.accounts import Database
from slurm_operator.clients.slurm import slurm_accounts
from slurm_operator.clients.slurm import slurmrestd_answers as answers
from slurm_operator.clients.slurm import slurmrestd_records as records
from slurm_operator.clients.slurm.slurm_error import SlurmError, Trouble
from slurm_operator.clients.slurm.slurmrestd_connection import DEADLINE_SECONDS, LISTING_SECONDS
from slurm_operator.clients.slurm.slurmrestd_jobs import HangingJobs
from slurm_operator.decide.cluster.accounts import Change, Removal
from slurm_operator.state.slurm import Reservation, Running, SeenCheckJob, SlurmJob, SlurmNode

FULL_LISTING_SECONDS = 60.0
_UNKNOWN_NODE = frozenset({0, 2018})
"""Errors for a node that does not exist: that of GET node/NAME, and ESLURM_INVALID_NODE_NAME."""


class SlurmRest(HangingJobs):
    """One cluster's slurmrestd."""

    def __init__(self, url: str, key_file: Path, authority: bytes | None = None) -> None:
        super().__init__(url, key_file, authority)
        self._nodes: dict[str, SlurmNode] | None = None
        self._next_update_time = 0
        self._full_listing_at = 0.0

    async def nodes(self, *, full: bool) -> Mapping[str, SlurmNode]:
        """List all nodes; unless `full`, an unchanged listing costs slurmctld nothing (HTTP 304).

        slurmctld compares whole seconds. So changes after the last one are asked for only if that answer came two
        seconds or more after it. Otherwise a change in the same second would be missed.
        """
        due = time.monotonic() - self._full_listing_at > FULL_LISTING_SECONDS
        ask_for_changes = not full and not due and self._nodes is not None
        params = {"update_time": str(self._next_update_time)} if ask_for_changes else {}
        seconds = LISTING_SECONDS if full else DEADLINE_SECONDS
        answer = await self._read_as(answers.Nodes, "nodes", "/nodes/", params, seconds)
        if answer is None:
            if self._nodes is None or not ask_for_changes:
                raise SlurmError(Trouble.UNUSABLE, "nodes: 'not modified' without a question about changes")
            return self._nodes
        if answer.last_update is None or not answer.last_update.set:
            raise SlurmError(Trouble.UNUSABLE, "nodes: the answer does not say when they changed last")
        last_update = answer.last_update.number
        listed = answers.listed("nodes", answer.nodes)
        known = self._nodes or {}
        # An unchanged record stays the same object: two listings of thousands of nodes share all but what changed.
        read = map(records.node, listed)
        nodes = {node.name: known[node.name] if known.get(node.name) == node else node for node in read}
        if len(nodes) != len(listed):
            raise SlurmError(Trouble.UNUSABLE, "nodes: a node is listed twice")
        self._nodes = nodes
        self._next_update_time = last_update + 1 if time.time() >= last_update + 2 else last_update
        self._full_listing_at = time.monotonic()
        return self._nodes

    async def job_count(self) -> int | None:
        """Ask slurmctld how many jobs wait and run; it counts them twice a minute. None if it has not counted yet."""
        answer = await self._read_as(answers.Diagnosis, "diag", "/diag/")
        if answer is None or answer.statistics is None:
            raise SlurmError(Trouble.UNUSABLE, "diag: the answer does not say how many jobs there are")
        counted = answer.statistics
        return counted.jobs_pending + counted.jobs_running if counted.job_states_ts.number else None

    async def time_there(self) -> datetime.datetime | None:
        """Return the time by slurmctld's clock; None if slurmctld does not say."""
        answer = await self._read_as(answers.Diagnosis, "diag", "/diag/")
        return records.since(answer.statistics.req_time) if answer and answer.statistics else None

    async def job_states(self) -> list[tuple[str, frozenset[str]]]:
        """List the states of all jobs by id. Tasks of an array and components of a heterogeneous job stand apart.

        Seen with 26.05: 10,000 jobs cost slurmrestd 20 MiB and a quarter of a second; in full (GET jobs/) they cost it
        1.4 GiB, with any flags. The time that slurmrestd takes to free the answer grows with the square of the number:
        100,000 states cost minutes. Ask job_count() first.
        """
        answer = await self._read_as(answers.States, "job_states", "/jobs/state/", seconds=LISTING_SECONDS)
        if answer is None:
            raise SlurmError(Trouble.UNUSABLE, "jobs: 'not modified' without a question about changes")
        listed = answers.listed("jobs", answer.jobs)
        return [(str(record.job_id), records.states("jobs", record.state)) for record in listed]

    async def job(self, number: str) -> Sequence[SlurmJob]:
        """Read a job, all its components if it is heterogeneous; nothing if slurmctld has forgotten it."""
        answer = await self._about_job(answers.Jobs, number)
        return [records.job(item) for item in answers.listed("job", answer.jobs)] if answer else ()

    async def check_job(self, job_id: int) -> SeenCheckJob | None:
        """Read a job of a long check; None if slurmctld has forgotten it."""
        answer = await self._about_job(answers.CheckJobs, str(job_id))
        jobs = answers.listed("job", answer.jobs) if answer else []
        return records.check_job(jobs[0]) if jobs else None

    async def submit(self, job: Mapping[str, Any]) -> int:
        """Submit a batch job and return its id."""
        content = await self._call("submit", "POST", "/job/submit", {"job": dict(job)})
        job_id = answers.decoded("submit", content, answers.Submitted).job_id if content else None
        if not job_id:
            raise SlurmError(Trouble.UNUSABLE, "submit: the answer does not say which job it is")
        return job_id

    async def release(self, job_id: int) -> None:
        """Let a job begin that was submitted on hold."""
        await self._call("release", "POST", f"/job/{job_id}", {"hold": False})

    async def partitions(self) -> frozenset[str]:
        """Return the names of the partitions that slurmctld has."""
        answer = await self._read_as(answers.Partitions, "partitions", "/partitions/")
        return frozenset(
            partition.name for partition in answers.listed("partitions", answer.partitions if answer else None)
        )

    async def reservations(self) -> tuple[Reservation, ...]:
        """List all reservations, of now and for later."""
        answer = await self._read_as(answers.Reservations, "reservations", "/reservations/")
        listed = answers.listed("reservations", answer.reservations if answer else None)
        return tuple(records.reservation(reservation) for reservation in listed)

    async def reserve(
        self,
        name: str,
        nodes: Sequence[str],
        starts: datetime.datetime,
        ends: datetime.datetime,
        user: str = names.RESERVATION_USER,
        flags: Sequence[str] = names.RESERVATION_FLAGS,
    ) -> None:
        """Reserve nodes for a user; the default is for maintenance, whatever runs on them."""
        fixed = {"users": [user], "flags": [*flags]}
        times = {"start_time": _number(starts), "end_time": _number(ends)}
        await self._call("reserve", "POST", "/reservation", {"name": name, "node_list": [*nodes], **fixed, **times})

    async def change_reservation(
        self, name: str, nodes: Sequence[str], ends: datetime.datetime, starts: datetime.datetime | None = None
    ) -> None:
        """Give a reservation other nodes and times; Slurm takes no other start for one that has begun."""
        times = {"end_time": _number(ends), **({"start_time": _number(starts)} if starts else {})}
        await self._call("change_reservation", "POST", "/reservation", {"name": name, "node_list": [*nodes], **times})

    async def end_reservation(self, name: str) -> None:
        """Delete a reservation; Slurm refuses while a job runs in it."""
        await self._call("end_reservation", "DELETE", f"/reservation/{quote(name, safe='')}")

    async def node(self, name: str) -> SlurmNode | None:
        """Read one node anew, None if Slurm says that it has no such record; any other refusal is an error."""
        try:
            answer = await self._read_as(answers.Nodes, "node", _node_path(name))
        except SlurmError as error:
            if error.reason is Trouble.REFUSED and error.numbers and error.numbers <= _UNKNOWN_NODE:
                return None
            raise
        listed = [records.node(item) for item in answers.listed("node", answer.nodes if answer else None)]
        return next((node for node in listed if node.name == name), None)

    async def drain(self, name: str, reason: str) -> None:
        """Give a node no new jobs."""
        await self._call("drain", "POST", _node_path(name), {"state": ["DRAIN"], "reason": reason})

    async def keep_out(self, name: str) -> None:
        """Drain a node without a new reason: its reason and the reason's author stay."""
        await self._call("keep_out", "POST", _node_path(name), {"state": ["DRAIN"]})

    async def give_reason(self, name: str, reason: str) -> None:
        """Give a node that is out of service another reason; its state stays."""
        await self._call("give_reason", "POST", _node_path(name), {"reason": reason})

    async def take_down(self, name: str, reason: str) -> None:
        """Take a node's jobs from it: those that may are requeued, the others end (NODE_FAIL); a drain stays."""
        await self._call("take_down", "POST", _node_path(name), {"state": ["DOWN"], "reason": reason})

    async def undrain(self, name: str) -> None:
        """Lift a drain; unlike RESUME it leaves a DOWN node down."""
        await self._call("undrain", "POST", _node_path(name), {"state": ["UNDRAIN"]})

    async def comment(self, name: str, text: str) -> None:
        """Write a note on a node, which has no effect; an empty one takes it away."""
        await self._call("comment", "POST", _node_path(name), {"comment": text})

    async def update_node(
        self,
        name: str,
        features: Sequence[str] | None = None,
        weight: int | None = None,
        topology: str | None = None,
    ) -> None:
        """Give a node other features, all that it has, another weight or topology; None leaves what it has.

        slurmctld takes no features away that are active (26.05, update_node), so both lists come together.
        """
        changed: dict[str, Any] = {}
        if features is not None:
            changed |= {"features": [*features], "features_act": [*features]}
        if weight is not None:
            changed["weight"] = {"set": True, "infinite": False, "number": weight}
        if topology is not None:
            changed["topology_str"] = topology
        await self._call("update_node", "POST", _node_path(name), changed)

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
            shown, started = answer["slurm_conf"], records.moment(int(answer["slurm_conf_meta"]["BOOT_TIME"]))
            communication = frozenset(str(word).lower() for word in shown.get("CommunicationParameters") or ())
            counts_memory = any("memory" in str(word).lower() for word in shown.get("SelectTypeParameters") or ())
            return Running(",".join(shown["SlurmctldParameters"]), started, communication, counts_memory)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SlurmError(Trouble.UNUSABLE, f"conf: the answer holds no configuration: {error}") from error

    async def partition_state(self, name: str) -> str:
        """Read whether a partition takes jobs (UP), finishes those that it has (DRAIN) …, empty if there is none."""
        answer = await self._read_as(answers.Partitions, "partition", f"/partition/{quote(name, safe='')}")
        # For an unknown partition slurmrestd answers with a warning, without a list.
        partitions = (answer.partitions if answer else None) or []
        return next(iter(records.states(name, partitions[0].partition.state))) if partitions else ""

    async def set_partition(self, name: str, state: str) -> None:
        """Set a partition's state until slurmctld reads its files again."""
        wanted = {"name": name, "partition": {"state": [state]}}
        await self._call("set_partition", "POST", "/partitions/", {"partitions": [wanted]})

    async def administrators(self) -> dict[str, str]:
        """Ask slurmdbd who administers Slurm: name → AdminLevel, Administrator or Operator."""
        answer = await self._read_as(answers.Users, "administrators", f"{names.REST_DATABASE_API}/users/")
        listed = answers.listed("users", answer.users if answer else None)
        levels = {user.name: user.administrator_level for user in listed}
        return {name: word for name, (word, *_) in levels.items() if word in ("Administrator", "Operator")}

    async def appoint(self, levels: Mapping[str, str]) -> None:
        """Set AdminLevels in slurmdbd, which makes users that it does not know."""
        users = [{"name": name, "administrator_level": [level]} for name, level in levels.items()]
        await self._call("appoint", "POST", f"{names.REST_DATABASE_API}/users/", {"users": users})

    async def accounts(self, cluster: str) -> Database:
        """Ask slurmdbd for all QOS, accounts and associations, as that cluster sees them."""
        database, own = names.REST_DATABASE_API, slurm_accounts.OWN_LIMITS
        qos = await self._read_as(slurm_accounts.Qos, "qos", f"{database}/qos/")
        with_coordinators = slurm_accounts.COORDINATORS
        accounts = await self._read_as(slurm_accounts.Accounts, "accounts", f"{database}/accounts/", with_coordinators)
        path, seconds = f"{database}/associations/", LISTING_SECONDS
        associations = await self._read_as(slurm_accounts.Associations, "associations", path, own, seconds)
        users = await self._read_as(answers.Users, "administrators", f"{database}/users/")
        return slurm_accounts.database(cluster, qos, accounts, associations, users)

    async def change_account(self, cluster: str, change: Change) -> None:
        """Make a QOS, an account or an association, or change values of it."""
        for path, body in slurm_accounts.requests(cluster, change):
            await self._call("change_account", "POST", names.REST_DATABASE_API + path, body)

    async def remove_account(self, cluster: str, removal: Removal) -> None:
        """Delete a QOS, an account or an association; slurmdbd refuses while jobs run in it."""
        path, params = slurm_accounts.deletion(cluster, removal)
        await self._call("remove_account", "DELETE", names.REST_DATABASE_API + path, params=params)


def _number(time: datetime.datetime) -> dict[str, object]:
    return {"set": True, "infinite": False, "number": int(time.timestamp())}


def _node_path(name: str) -> str:
    return f"/node/{quote(name, safe='')}"
