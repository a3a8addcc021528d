"""The ledger of long checks: jobs without a verdict, the latest verdict of each node, retries, and requests.

It stands in SlurmCluster.status.longChecks.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import itertools
from collections.abc import Container, Iterable, Mapping
from typing import Any

from contract import reasons
from slurm_operator.timestamps import timestamp


class Verdict(enum.StrEnum):
    """The verdict of a job about its nodes; NONE is no verdict, as of a job that somebody cancelled.

    Only nodes are SUSPECT: a job of several nodes failed, and one of them is bad.
    """

    PASS = "PASS"  # noqa: S105 - a verdict
    FAIL = "FAIL"
    UNKNOWN = "UNKNOWN"
    NONE = "NONE"
    SUSPECT = "SUSPECT"


MOST_EXACT = 1000
"""Verdicts of a check whose times stand exactly in the status. Beyond them nodes that passed share times."""
_SHARED_MINUTES = 5
MOST_WHYS = 100
"""Texts of a check that the status has, those of nodes that did not pass first, then the latest."""
SUSPICIOUS = frozenset({Verdict.FAIL, Verdict.SUSPECT})
"""Latest verdicts with which a node is no partner of suspects."""


class Aim(enum.StrEnum):
    """The purpose of a job, which tells what its failure says.

    TESTS: one of its nodes is bad. ACCUSES: its first node is bad, a suspect beside good nodes. RETRIES: the same of a
    drained node, in its reservation.
    """

    TESTS = "Tests"
    ACCUSES = "Accuses"
    RETRIES = "Retries"


@dataclasses.dataclass(frozen=True, slots=True)
class CheckJob:
    """A job of a long check; `failed` says why its node is to be drained, empty without such a verdict.

    `others` are further nodes of the same job.
    """

    job_id: int
    check: str
    node: str
    submitted: datetime.datetime
    failed: str = ""
    others: tuple[str, ...] = ()
    aim: Aim = Aim.TESTS

    @property
    def nodes(self) -> frozenset[str]:
        """All nodes of the job."""
        return frozenset((self.node, *self.others))

    @property
    def blames(self) -> bool:
        """True if its failure says which node is bad."""
        return not self.others or self.aim is not Aim.TESTS


@dataclasses.dataclass(frozen=True, slots=True)
class Latest:
    """The latest verdict of a check about a node, and `why`, with what its job reported."""

    verdict: Verdict
    at: datetime.datetime
    why: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """An administrator's request to test some nodes at once.

    Attributes:
        check: the check.
        text: of the annotation; another text is another request, and none withdraws it.
        at: the time when the operator took it.
        nodes: those without a verdict since.
    """

    check: str
    text: str
    at: datetime.datetime
    nodes: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class Retry:
    """A drained node that is tried again, or for the first time, in a reservation of its own.

    Attributes:
        check: the check that drained it.
        node: its name.
        why: the reason of its drain.
        passes: jobs in the reservation that passed.
        given_up: a job did not pass, or there can't be one: the node is drained again.
    """

    check: str
    node: str
    why: str
    passes: int = 0
    given_up: bool = False

    @property
    def is_first(self) -> bool:
        """True if the node is new or was repaired, and has not passed yet."""
        return self.why.startswith(reasons.UNTESTED)


@dataclasses.dataclass(frozen=True, slots=True)
class Ledger:
    """All that is known of long checks.

    Attributes:
        jobs: by their ids.
        latest: (check, node) → verdict.
        counts: (check, verdict) → number of jobs.
        retries: node → how far its retry is.
        requests: check → the latest request.
    """

    jobs: Mapping[int, CheckJob] = dataclasses.field(default_factory=dict)
    latest: Mapping[tuple[str, str], Latest] = dataclasses.field(default_factory=dict)
    counts: Mapping[tuple[str, Verdict], int] = dataclasses.field(default_factory=dict)
    retries: Mapping[str, Retry] = dataclasses.field(default_factory=dict)
    requests: Mapping[str, Request] = dataclasses.field(default_factory=dict)

    def request(self, check: str, node: str) -> Request | None:
        """Return the request for which a node is to be tested; None without one."""
        request = self.requests.get(check)
        return request if request and node in request.nodes else None

    def taken(self) -> set[str]:
        """Return nodes that have a job."""
        return {node for job in self.jobs.values() for node in job.nodes}


def read(rows: Iterable[Mapping[str, Any]]) -> Ledger:
    """Read status.longChecks."""
    jobs, latest, counts = dict[int, CheckJob](), dict[tuple[str, str], Latest](), dict[tuple[str, Verdict], int]()
    retries, requests = dict[str, Retry](), dict[str, Request]()
    for row in rows:
        name = row["name"]
        for job in row.get("jobs", ()):
            submitted = datetime.datetime.fromisoformat(job["submitted"])
            others, aim = tuple(job.get("others", ())), Aim(job.get("aim", Aim.TESTS))
            read_job = CheckJob(job["id"], name, job["node"], submitted, job.get("failed", ""), others, aim)
            jobs[read_job.job_id] = read_job
        for item in row.get("retries", ()):
            passes, given_up = item.get("passes", 0), item.get("givenUp", False)
            retries[item["node"]] = Retry(name, item["node"], item["why"], passes, given_up)
        if request := row.get("requested"):
            at, left = datetime.datetime.fromisoformat(request["at"]), frozenset(request.get("nodes", ()))
            requests[name] = Request(name, request["text"], at, left)
        for group in row.get("checked", ()):
            at = datetime.datetime.fromisoformat(group["at"])
            said = Latest(Verdict(group["verdict"]), at, group.get("why", ""))
            latest |= dict.fromkeys(((name, node) for node in group["nodes"]), said)
        counts |= {(name, Verdict(word)): number for word, number in row.get("verdicts", {}).items()}
    return Ledger(jobs, latest, counts, retries, requests)


def written(ledger: Ledger, declared: Iterable[str], nodes: Container[str] | None = None) -> list[dict[str, Any]]:
    """Return status.longChecks: of checks that are declared, and of others as long as they have jobs or retries.

    Args:
        ledger: what is known.
        declared: names of the declared checks.
        nodes: those that Slurm has, whose latest verdicts and requests stay; None keeps all.
    """
    busy = {job.check for job in ledger.jobs.values()} | {retry.check for retry in ledger.retries.values()}
    names = sorted({*declared} | busy)
    return [_row(ledger, name, nodes) for name in names]


def _row(ledger: Ledger, name: str, nodes: Container[str] | None) -> dict[str, Any]:
    jobs = [job for _, job in sorted(ledger.jobs.items()) if job.check == name]
    latest = {
        node: said for (of, node), said in ledger.latest.items() if of == name and (nodes is None or node in nodes)
    }
    first = sorted(latest.values(), key=lambda said: (said.verdict is Verdict.PASS, -said.at.timestamp()))
    whys = frozenset(itertools.islice(dict.fromkeys(said.why for said in first if said.why), MOST_WHYS))
    groups: dict[Latest, list[str]] = {}
    for node, said in latest.items():
        kept = said if said.why in whys else dataclasses.replace(said, why="")
        if len(latest) > MOST_EXACT and said.verdict is Verdict.PASS:
            kept = dataclasses.replace(kept, at=_shared(said.at))  # etcd takes 1.5 MiB.
        groups.setdefault(kept, []).append(node)
    verdicts = {str(verdict): ledger.counts[name, verdict] for verdict in Verdict if (name, verdict) in ledger.counts}
    lists = {
        "jobs": [_job(job) for job in jobs],
        "retries": [_retry(retry) for _, retry in sorted(ledger.retries.items()) if retry.check == name],
        "checked": [_checked(said, groups[said]) for said in sorted(groups, key=_order)],
        "verdicts": verdicts,
        "requested": _requested(ledger.requests.get(name), nodes),
    }
    return {"name": name, **{key: value for key, value in lists.items() if value}}


def _shared(moment: datetime.datetime) -> datetime.datetime:
    return moment.replace(minute=moment.minute // _SHARED_MINUTES * _SHARED_MINUTES, second=0)


def _order(said: Latest) -> tuple[datetime.datetime, str, str]:
    return said.at, said.verdict, said.why


def _checked(said: Latest, nodes: Iterable[str]) -> dict[str, Any]:
    why = {"why": said.why} if said.why else {}
    return {"at": timestamp(said.at), "verdict": str(said.verdict), "nodes": sorted(nodes), **why}


def _requested(request: Request | None, nodes: Container[str] | None) -> dict[str, Any]:
    if request is None:
        return {}
    left = sorted(node for node in request.nodes if nodes is None or node in nodes)
    return {"text": request.text, "at": timestamp(request.at), **({"nodes": left} if left else {})}


def _job(job: CheckJob) -> dict[str, Any]:
    optional = {
        "failed": job.failed,
        "others": [*job.others],
        "aim": "" if job.aim is Aim.TESTS else str(job.aim),
    }
    fixed = {"id": job.job_id, "node": job.node, "submitted": timestamp(job.submitted)}
    return fixed | {key: value for key, value in optional.items() if value}


def _retry(retry: Retry) -> dict[str, Any]:
    optional = {"passes": retry.passes, "givenUp": retry.given_up}
    return {"node": retry.node, "why": retry.why} | {key: value for key, value in optional.items() if value}
