"""Promises about slurmdbd's state: its own words are told, and it blocks no jobs."""

from __future__ import annotations

import dataclasses

import pytest
from slurm_operator.decide.cluster import accounting
from slurm_operator.state.kubernetes import Kubernetes

from tests.operator.states.seen_clusters import CLUSTER, workload, world

LOST = """[2026-11-21T15:56:01.309] slurmdbd version 26.05.5 started
[2026-11-21T15:56:02.069] error: mysql_real_connect failed: 2002 Can't connect to server on 'slurm-database' (115)
[2026-11-21T15:56:02.070] error: unable to re-connect to as_mysql database
[2026-11-21T15:56:02.071] error: Processing last message from connection 12(10.9.9.9) uid(64030)
"""
REFUSED = """slurm-node: started slurmdbd as process 12
slurmdbd: error: mysql_real_connect failed: 1045 Access denied for user 'slurm'@'10.1.2.3' (using password: YES)
slurmdbd: error: The database must be up when starting the MYSQL plugin.  Trying again in 5 seconds.
"""
ENDED = """slurmdbd: fatal: mysql_query failed: 1044 Access denied for user 'slurm'@'%' to database 'books'
create database books
slurm-node: slurmdbd ended (exit code 1); starting it again in 4 s
"""


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (LOST, "mysql_real_connect failed: 2002 Can't connect to server on 'slurm-database' (115)"),
        (REFUSED, "mysql_real_connect failed: 1045 Access denied for user 'slurm'@'10.1.2.3' (using password: YES)"),
        (ENDED, "mysql_query failed: 1044 Access denied for user 'slurm'@'%' to database 'books'"),
        ("slurm-node: error: the database password holds NUL", "the database password holds NUL"),
        ("slurmdbd version 26.05.5 started", ""),
        ("", ""),
    ],
)
def test_slurmdbds_own_words_are_told(log: str, words: str) -> None:
    assert accounting.last_words(log) == words


def with_accounting(ready: int, words: str = "", *, there: bool = True) -> Kubernetes:
    cluster = dataclasses.replace(CLUSTER, accounting="slurm-accounting")
    more = {"slurm-accounting": workload("slurm-accounting", 1, ready)} if there else {}
    return world(cluster=cluster, workloads={**world().workloads, **more}, accounting_words=words)


@pytest.mark.parametrize(
    ("seen", "wrong", "progressing"),
    [
        (world(), [], []),
        (with_accounting(1), [], []),
        (with_accounting(0), [], ["AccountingStarting"]),
        (with_accounting(0, "Access denied"), ["AccountingNotReady"], []),
        (with_accounting(0, there=False), ["AccountingMissing"], []),
    ],
)
def test_accounting_is_told_about_and_never_blocks_jobs(
    seen: Kubernetes, wrong: list[str], progressing: list[str]
) -> None:
    found = accounting.findings(seen)
    assert [each.reason for each in found.wrong] == wrong
    assert [each.reason for each in found.progressing] == progressing
    assert found.blocking == found.unknown == []
    assert all(seen.accounting_words in each.message for each in found.wrong)
