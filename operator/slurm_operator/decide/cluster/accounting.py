"""Finds what is wrong with accounting, in slurmdbd's own words. Jobs run without it, so it never blocks Available."""

from __future__ import annotations

import re

from contract.conditions import Reason
from slurm_operator.findings import Finding, Findings, under_way
from slurm_operator.state.kubernetes import Kubernetes

_TROUBLE = re.compile(r"\b(?:error|fatal): (.+)")
_OF_NO_USE = (
    # slurmdbd logs these lines beside the line with the reason.
    "The database must be up when starting the MYSQL plugin",
    "Database settings not recommended values",
    "unable to re-connect to as_mysql database",
    "Processing last message from connection",
    "The connection is",
)


def last_words(log: str) -> str:
    """Return the last reason that slurmdbd, or its pod's entry, gave in a log; empty if it gave none."""
    reasons = [match[1].strip() for match in map(_TROUBLE.search, log.splitlines()) if match]
    telling = [reason for reason in reasons if not reason.startswith(_OF_NO_USE)]
    return telling[-1] if telling else ""


def findings(seen: Kubernetes) -> Findings:
    """Judge slurmdbd: one that has said nothing yet is only starting."""
    findings = Findings()
    name = seen.cluster.accounting
    if not name:
        return findings
    workload = seen.workloads.get(name)
    if workload is None:
        findings.append(Finding(Reason.ACCOUNTING_MISSING, f"accounting: there is no StatefulSet {name}"))
    elif is_waiting(seen):
        message = f"accounting: {seen.accounting_words or 'slurmdbd is not ready yet'}"
        if seen.accounting_words:
            findings.append(Finding(Reason.ACCOUNTING_NOT_READY, f"{message}; jobs run, and are recorded afterwards"))
        else:
            findings.append(under_way(Reason.ACCOUNTING_STARTING, message))
    return findings


def is_waiting(seen: Kubernetes) -> bool:
    """Return whether slurmdbd is there and does not answer for its database."""
    workload = seen.workloads.get(seen.cluster.accounting)
    return workload is not None and not workload.is_ready
