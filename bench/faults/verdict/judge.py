"""Judges whether a run kept the operator's promises: each rule searches the history for violations. Pure."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from bench.faults.kinds import KINDS, OTHERS_WORDS, Sign, Teller
from bench.faults.verdict import health
from bench.faults.verdict.history import Canary, History, Injected, Job, Kubernetes, Line, Pod, Slurm
from contract.conditions import ConditionType

TOLD_SECONDS = 60.0
HEALTHY_SECONDS = 300.0
BLIND_SECONDS = 40.0
"""Longest time without a look at Kubernetes: a fault stops the API server for 12 s at most."""
BLIND_FOR_SLURM_SECONDS = 180.0
"""Longest time without a look at Slurm: a fault takes slurmctld away for a minute, and another fault may follow."""
SETTLE_SECONDS = 5.0
"""Time by which a look may have begun before the event that it should show."""
UNSAVED_SECONDS = 6.0
"""slurmctld saves jobs every 5 s (SAVE_MAX_WAIT in Slurm's state_save.c). SIGKILL loses what came since."""
ACTED = re.compile(r" INFO slurm_operator\.(execute|report|reconcile\.cluster): ")
"""A line in the operator's log that tells of a change it made."""
FLAGS = {"person-drained": "DRAIN", "person-failed": "FAIL"}


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was broken, when (seconds since the epoch), and how."""

    at: float
    rule: str
    words: str


def judge(history: History) -> list[Violation]:
    """Return all violations in the order of time."""
    return sorted((violation for rule in RULES for violation in rule(history)), key=lambda violation: violation.at)


def canaries_end_well(history: History) -> Iterator[Violation]:
    """Each canary is known to Slurm, ends COMPLETED, and its script began once and came to its end."""
    jobs = final_jobs(history)
    for canary in history.canaries:
        yield from _ends_well(history, jobs, canary, forgotten=slurmctld_forgot(history, canary))


def canaries_not_judged(history: History) -> list[str]:
    """Return the canaries that a killed slurmctld took back to what it had saved, and that otherwise broke the rule."""
    jobs = final_jobs(history)
    forgotten = [canary for canary in history.canaries if slurmctld_forgot(history, canary)]
    return [
        canary.name
        for canary in forgotten
        if any(_ends_well(history, jobs, canary, forgotten=False))
        and not any(_ends_well(history, jobs, canary, forgotten=True))
    ]


def slurmctld_forgot(history: History, canary: Canary) -> bool:
    """Return whether a canary was submitted, began, went on or ended right before or after SIGKILL to slurmctld.

    docs/limits.md says what Slurm then loses.
    """
    words = [line.split() for lines in history.printed.get(canary.name, []) for line in lines]
    return any(_unsaved(history, time) for time in (canary.at, *(float(last) for *_, last in words if last.isdigit())))


def _unsaved(history: History, time: float) -> bool:
    kills = (fault.began for fault in history.faults.values() if fault.kind == "slurmctld-killed")
    return any(abs(time - kill) <= UNSAVED_SECONDS for kill in kills)


def _ends_well(history: History, jobs: Mapping[str, Job], canary: Canary, *, forgotten: bool) -> Iterator[Violation]:
    """Return violations of a canary. A forgotten one may be lost, fail with its node or begin twice."""
    rule = "a canary ends but well"
    well = {"COMPLETED", "NODE_FAIL"} if forgotten else {"COMPLETED"}
    lost = forgotten and _unsaved(history, canary.at)
    mine = [job for job in jobs.values() if job.name == canary.name and not (lost and _is_gone(history, job))]
    for job in mine:
        if job.has_ended and job.state not in well:
            yield Violation(job.end or canary.at, rule, f"{canary.name} ({job.id}) is {job.state}")
        elif not job.has_ended:
            yield Violation(history.finished, rule, f"{canary.name} ({job.id}) is still {job.state}")
    if len(mine) < canary.tasks and (mine or (canary.sure and not lost)):
        yield Violation(canary.at, rule, f"{canary.name}: Slurm knows {len(mine)} of {canary.tasks} jobs")
    if not forgotten and mine and all(job.state == "COMPLETED" for job in mine):
        yield from _printed_well(history, canary.name, canary.at, len(mine))


def _is_gone(history: History, job: Job) -> bool:
    """Return whether slurmctld showed a job before it had saved it, and does not know it any more."""
    last = history.slurm[-1].jobs if history.slurm else ()
    return not job.has_ended and all((known.id, known.name) != (job.id, job.name) for known in last)


def _printed_well(history: History, name: str, at: float, tasks: int) -> Iterator[Violation]:
    """Return violations in the output of a canary's scripts: a script that began twice lost its work in between."""
    rule, printed = "a canary ends but well", history.printed.get(name, [])
    if len(printed) != tasks:
        yield Violation(at, rule, f"{name}: {len(printed)} of {tasks} scripts printed anything")
    for lines in printed:
        words = [line.split(maxsplit=1)[0] for line in lines if line.strip()]
        if words.count("begin") != 1 or words[-1:] != ["end"]:
            yield Violation(at, rule, f"{name} printed {' | '.join(lines)}")


def final_jobs(history: History) -> dict[str, Job]:
    """Return the last record of each job by its id: slurmctld's, replaced by accounting's."""
    jobs = {job.id: job for seen in history.slurm for job in seen.jobs}
    accounts = ((task, row) for number, row in history.accounts.items() for task in tasks(number))
    for number, (name, state) in accounts:
        known = jobs.get(number, Job(number, name, state, (), 0, 0))
        jobs[number] = known if known.has_ended else replace(known, state=state)
    return jobs


def tasks(number: str) -> list[str]:
    """Return the tasks of a number as sacct shows it: `7_[2-3]` are tasks whose starts slurmdbd never heard of."""
    array, _, listed = number.partition("_[")
    if not listed:
        return [number]
    spans = [words.split("-") for words in listed.rstrip("]").partition("%")[0].split(",")]
    return [f"{array}_{task}" for span in spans for task in range(int(span[0]), int(span[-1]) + 1)]


def drains_of_people_stay(history: History) -> Iterator[Violation]:
    """While an administrator's drain or FAIL holds, each look shows its state, its reason, and the author of the first.

    His name as slurmctld's pod has it may be a number: he is a user of the jail.
    """
    for fault in history.faults.values():
        flag = FLAGS.get(fault.kind)
        if flag is None or fault.trouble:
            continue
        until, author = fault.over or history.finished, None
        for seen in history.slurm:
            if not fault.done + SETTLE_SECONDS < seen.at < until:
                continue
            node = seen.nodes.get(fault.target)
            author = node.user if node and author is None else author
            if node is None:
                said = "has no record"
            elif flag not in node.states or (node.reason, node.user) != (fault.note["reason"], author):
                said = f"is {'+'.join(sorted(node.states))}, {node.reason!r} by {node.user or 'nobody'}"
            else:
                continue
            words = f"{fault.target} {said}, after {fault.note['user']} wrote {flag}, {fault.note['reason']!r}"
            yield Violation(seen.at, "a person's drain changes", words)
            break


def workers_outlive_their_jobs(history: History) -> Iterator[Violation]:
    """No worker pod ends, or starts a container anew, while a job runs on its node."""
    stays = _stays(history)
    for before, after in pairwise(history.kubernetes):
        for name, pod in before.pods.items():
            if pod.component != "worker" or pod.ending:
                continue
            how = _ended(pod, after.pods.get(name))
            for job, start, end in stays.get(name, ()) if how else ():
                if start < before.at and end > after.at:
                    yield Violation(after.at, "a worker pod ends under a job", f"{name} {how} under job {job}")


def _ended(before: Pod, now: Pod | None) -> str:
    """Return how a pod ended between two looks; empty if it did not."""
    if now is None:
        return "is gone"
    if now.uid != before.uid:
        return "is another one"
    if now.ending:
        return "is told to end"
    return "started anew" if now.restarts > before.restarts else ""


def _stays(history: History) -> Mapping[str, list[tuple[str, float, float]]]:
    """Return the jobs of each node: node → (job, start, end). A requeued job has several starts."""
    began: dict[tuple[str, float], tuple[Job, float]] = {}
    for seen in history.slurm:
        for job in seen.jobs:
            if job.nodes and job.start:
                known = began.get((job.id, job.start))
                end = job.end if job.has_ended else seen.at
                began[job.id, job.start] = (job, end if known is None else max(end, known[1]))
    stays: dict[str, list[tuple[str, float, float]]] = {}
    for (number, start), (job, end) in began.items():
        for node in job.nodes:
            stays.setdefault(node, []).append((number, start, end))
    return stays


def one_holder_acts(history: History) -> Iterator[Violation]:
    """Only the operator that holds the lease just before or after a change logs that change."""
    looks = [seen.at for seen in history.kubernetes]
    for line in history.logs:
        if not ACTED.search(line.text) or not looks:
            continue
        following = bisect_left(looks, line.at)
        around = history.kubernetes[max(0, following - 1) : following + 1]
        holders = {seen.holder for seen in around if seen.holder}
        if holders and not any(holder.startswith(f"{line.pod}-") for holder in holders):
            words = f"{line.pod} acted while {' and '.join(sorted(holders))} held the lease: {line.text}"
            yield Violation(line.at, "another than the holder acts", words)


def all_is_told(history: History) -> Iterator[Violation]:
    """A condition, an Event or the lease tells within a minute of each fault that does not pass by itself."""
    lines = [(seen.at, line) for seen in history.kubernetes for line in seen.lines()]
    lines = sorted([*lines, *((event.at, event.text) for event in history.events)])
    times = [at for at, _ in lines]
    for fault in history.faults.values():
        patterns = {} if fault.trouble else KINDS[fault.kind].told_by(fault.target, fault.note)
        until = fault.done + TOLD_SECONDS
        if not patterns or history.finished < until:
            continue
        heard = lines[bisect_right(times, fault.began) : bisect_right(times, until)]
        if not any(pattern.search(line) for pattern in patterns.values() for _, line in heard):
            words = f"nothing tells of {_title(fault)} within {TOLD_SECONDS:.0f} s"
            yield Violation(until, "not told", words)


def what_nobody_tells_has_passed(history: History) -> Iterator[Violation]:
    """A fault that nobody has to report is over a minute after its end, as a look shows."""
    for fault in history.faults.values():
        sign, until = KINDS[fault.kind].passed, fault.over + TOLD_SECONDS
        if sign is None or fault.trouble or history.finished < until:
            continue
        seen: list[Kubernetes | Slurm] = [*history.kubernetes, *history.slurm]
        if not any(fault.over < look.at <= until and shows(look, sign, fault.target) for look in seen):
            yield Violation(until, "not over", f"{_title(fault)}: no look shows that {sign}")


def shows(look: Kubernetes | Slurm, sign: Sign, target: str) -> bool:
    """Return whether a look has that sign."""
    if isinstance(look, Slurm):
        node = look.nodes.get(target)
        serves = node is not None and not node.states & {"DOWN", "NOT_RESPONDING"}
        return sign is Sign.SLURM_ANSWERS or (sign is Sign.NODE_SERVES and serves)
    conditions = [row for rows in look.conditions.values() for row in rows.items()]
    match sign:
        case Sign.KUBERNETES_ANSWERS:
            return True
        case Sign.ACCOUNTING_IS_READY:
            return any(pod.component == "accounting" and pod.ready for pod in look.pods.values())
        case Sign.K8S_NODES_ARE_READY:
            return not any(words.endswith("is not ready") for words in look.node_problems)
        case Sign.STATUS_IS_THE_OPERATORS:
            return not any(OTHERS_WORDS in condition.message for _, condition in conditions)
        case Sign.STATUS_IS_KNOWN:
            unknown = (ConditionType.AVAILABLE, "Unknown")
            return not any((kind, condition.status) == unknown for kind, condition in conditions)
    return False


def all_is_healthy_afterwards(history: History) -> Iterator[Violation]:
    """Five minutes after the last fault nothing is wrong, and nothing becomes wrong again."""
    until, last = history.last_end + HEALTHY_SECONDS, history.last_end
    moments = [look for look in looks(history) if look[0].at > last and look[1].at > last]
    rule = "not healthy after the faults"
    if not moments:
        yield Violation(last, rule, "nobody looked at the cluster after the last fault")
        return
    wrong = [
        (max(kubernetes.at, slurm.at), said)
        for kubernetes, slurm in moments
        if (said := health.troubles(kubernetes, slurm, history.nodes))
    ]
    at_the_end = health.troubles(*moments[-1], history.nodes)
    late = [(at, said) for at, said in wrong if at > until]
    if late or at_the_end:
        at, said = late[-1] if late else wrong[-1]
        yield Violation(at, rule, f"{at - last:.0f} s after the last fault: {'; '.join(said)}")


def looks(history: History) -> list[tuple[Kubernetes, Slurm]]:
    """Return each look at one of both sources, with the last look at the other."""
    both: list[Kubernetes | Slurm] = sorted([*history.kubernetes, *history.slurm], key=lambda look: look.at)
    moments, kubernetes, slurm = [], None, None
    for look in both:
        kubernetes, slurm = (look, slurm) if isinstance(look, Kubernetes) else (kubernetes, look)
        if kubernetes is not None and slurm is not None:
            moments.append((kubernetes, slurm))
    return moments


def nobody_was_blind(history: History) -> Iterator[Violation]:
    """The sampler looked all the time: without looks the judge would find no violation."""
    for name, seen, most in (
        ("Kubernetes", [look.at for look in history.kubernetes], BLIND_SECONDS),
        ("Slurm", [look.at for look in history.slurm], BLIND_FOR_SLURM_SECONDS),
    ):
        for before, after in pairwise([*seen, *([history.finished] if seen else [])]):
            if after - before > most:
                yield Violation(after, "not seen", f"no look at {name} for {after - before:.0f} s")


def faults_took_place(history: History) -> Iterator[Violation]:
    """Each fault began and ended as planned: a schedule that did not run as a whole proves nothing."""
    for fault in history.faults.values():
        if fault.trouble:
            yield Violation(fault.began, "a fault failed", f"{_title(fault)}: {fault.trouble}")
    if len(history.faults) < history.planned or not history.faults:
        words = f"{len(history.faults)} of {history.planned} faults took place"
        yield Violation(history.finished, "a fault failed", words)


def canaries_ran(history: History) -> Iterator[Violation]:
    """The run had canaries."""
    if not any(canary.sure for canary in history.canaries):
        yield Violation(history.finished, "not seen", "no canary job was submitted")


def _title(fault: Injected) -> str:
    return f"#{fault.number} {fault.kind}{fault.target and f' ({fault.target})'}"


def told_after(history: History, fault: Injected) -> tuple[float, Teller] | None:
    """Return the seconds until somebody told of a fault, and who; None if nobody did, or nobody has to."""
    patterns = {} if fault.trouble else KINDS[fault.kind].told_by(fault.target, fault.note)
    lines = [*history.events, *(Line(seen.at, line) for seen in history.kubernetes for line in seen.lines())]
    heard = [
        (line.at - fault.began, who)
        for line in lines
        for who, pattern in patterns.items()
        if line.at > fault.began and pattern.search(line.text)
    ]
    return min(heard, default=None)


RULES: Sequence[Callable[[History], Iterator[Violation]]] = (
    canaries_end_well,
    drains_of_people_stay,
    workers_outlive_their_jobs,
    one_holder_acts,
    all_is_told,
    what_nobody_tells_has_passed,
    all_is_healthy_afterwards,
    nobody_was_blind,
    faults_took_place,
    canaries_ran,
)
