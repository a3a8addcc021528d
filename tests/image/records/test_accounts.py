"""Accounts with a real slurmdbd: what the stack's config declares is there, and what sacctmgr made stays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from slurm_operator.reconcile.accounts import NO_EFFECT

from components.config import parse
from components.preflight import account_changes
from components.preflight.account_changes import AccountChanges
from components.slurm import accounts
from components.slurm.conf.partition_line import partition_line
from devcluster.images.layers import unpack_image
from tests.image.records.accounting_room import AccountingRoom
from tests.unit.effects.people_effects import BASE
from tests.unit.samples import changed

QOS: list[dict[str, Any]] = [
    {"name": "low"},
    {
        "name": "high", "description": "High", "priority": 100, "preempts": ["low"], "preemptMode": "requeue",
        "flags": ["DenyOnLimit", "NoDecay"], "usageFactor": 0.5, "graceTime": 30, "preemptExemptTime": 60,
        "limits": {"GrpTRES": "cpu=10,gres/gpu=4,mem=2G", "MaxWallDurationPerJob": "1-0", "MaxJobsPerUser": 5},
    },
]  # fmt: skip
PHYSICS: dict[str, Any] = {
    "name": "physics", "organization": "uni", "qos": ["normal", "high"], "defaultQos": "high", "fairshare": 10,
    "coordinators": ["alice"], "limits": {"GrpJobs": 20},
}  # fmt: skip
ALICE: dict[str, Any] = {
    "name": "alice", "fairshare": "parent", "limits": {"MaxJobs": 3, "MaxTRESPerJob": "cpu=4,gres/gpu=1"},
}  # fmt: skip
OPTICS: dict[str, Any] = {
    "name": "optics",
    "parent": "physics",
    "users": [ALICE, {"name": "games", "limits": {"MaxSubmitJobs": 1}}],
}


LISTS: dict[str, dict[str, Any]] = {
    "lab": {"allowAccounts": ["optics"], "allowQos": ["high"]},
    "public": {"denyAccounts": ["physics"]},
    "quick": {"allowQos": ["normal"]},
    "slow": {"denyQos": ["high"]},
}
"""Partition → whom it admits."""


def declared(**accounting: Any) -> dict[str, Any] | None:
    """`spec.accounts` of such a configuration."""
    raw = changed("accounting", {"mode": "mariadb", "enforce": ["limits", "qos"], **accounting}, BASE)
    return accounts.section(parse(raw).accounting)


def previewed(told: dict[str, Any], section: dict[str, Any] | None) -> AccountChanges:
    """Return what a preview of that declaration says, with the operator's last status."""
    assert section is not None
    return account_changes.changes(section, account_changes.read({"accounts": told["status"]}))


def refused(room: AccountingRoom) -> dict[str, bool]:
    """Return which partitions refuse a job of account optics with QOS high, by the words of their declared lines."""
    said = {}
    for name, lists in LISTS.items():
        raw = changed("accounting", {"mode": "mariadb", "enforce": ["limits"], "qos": QOS}, BASE)
        config = parse(changed("partitions", [{"name": name, "nodeSets": ["cpu"], **lists}], raw))
        words = partition_line(config, config.partitions[0]).split()
        own = [word for word in words if word.startswith(("Allow", "Deny"))]
        assert room.sh("scontrol", "create", f"partitionname={name}", "nodes=n1", *own) == ""
        job = ("sbatch", "--test-only", "--uid=games", "-A", "optics", "-q", "high", "-p", name, "--wrap", "true")
        said[name] = room.sh(*job)
        room.sh("scontrol", "delete", f"partitionname={name}")
    return {name: "Invalid account" in words or "Invalid qos" in words for name, words in said.items()}


@pytest.fixture
def room(image: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AccountingRoom]:
    database = unpack_image(tmp_path_factory.mktemp("database"), "database")
    with AccountingRoom(image, database, tmp_path) as room:
        yield room


def test_accounts_are_brought_to_slurmdbd_and_go_by_policy_while_peoples_own_stay(room: AccountingRoom) -> None:
    def shown(kind: str, columns: str, *where: str) -> list[str]:
        return room.sh("sacctmgr", "-nP", "show", kind, *where, f"format={columns}").splitlines()

    limits = ("assoc", "account,user,share,grpjobs,grptres,maxjobs,maxtres,qos,defaultqos", "wopl")
    room.sh("sacctmgr", "-i", "add", "account", "theirs")
    room.sh("sacctmgr", "-i", "add", "user", "eve", "account=theirs", "adminlevel=operator")

    told = room.bring(declared(qos=QOS, accounts=[PHYSICS, OPTICS]))
    assert told["findings"] == []
    assert "high|100|low|requeue|DenyOnLimit,NoDecay|0.500000|00:00:30|cpu=10,gres/gpu=4,mem=2G|1-00:00:00|5" in shown(
        "qos", "name,priority,preempt,preemptmode,flags,usagefactor,gracetime,grptres,maxwall,maxjobspu"
    )
    associations = shown(*limits)
    assert "physics||10|20||||high,normal|high" in associations
    assert "optics|alice|parent|||3|cpu=4,gres/gpu=1||" in associations
    assert "physics|uni|alice" in shown("account", "account,org,coord", "withcoord")
    assert told["status"]["notDeclared"] == ["account theirs", "user eve in theirs"]
    assert refused(room) == {"lab": False, "public": True, "quick": True, "slow": True}

    # By hand: another value of a declared limit, and values of which the config says nothing.
    where = ("where", "user=alice", "account=optics")
    room.sh("sacctmgr", "-i", "modify", "user", *where, "set", "maxjobs=9", "grptres=cpu=7")
    room.sh("sacctmgr", "-i", "modify", "qos", "high", "set", "maxtresperuser=node=3")
    fewer = {**QOS[1], "limits": {"GrpTRES": "cpu=11"}}
    told = room.bring(declared(qos=[QOS[0], fewer], accounts=[PHYSICS, OPTICS]), told["status"])
    assert told["findings"] == []
    assert "optics|alice|parent||cpu=7|3|cpu=4,gres/gpu=1||" in shown(*limits)
    assert shown("qos", "name,grptres,maxwall,maxjobspu,maxtrespu", "where", "name=high") == ["high|cpu=11|||node=3"]
    assert "user alice in optics: GrpTRES=cpu=7" in told["status"]["notDeclared"]

    # A preview of the same finds nothing to do, and one of less finds what goes.
    same = previewed(told, declared(qos=[QOS[0], fewer], accounts=[PHYSICS, OPTICS]))
    assert not same.are_some, same
    assert "user alice in optics: GrpTRES=cpu=7" in same.kept
    alone = {**PHYSICS, "coordinators": []}
    less = previewed(told, declared(qos=[QOS[0], fewer], accounts=[alone], removal="delete"))
    assert less.changed == ("account physics: Coordinators alice → none",)
    assert less.removed == ("account optics", "user alice in optics", "user games in optics")

    # slurmdbd knows no such resource, and says nothing about it.
    odd = {"name": "odd", "limits": {"GrpTRES": "gres/nonesuch=1"}}
    odder = room.bring(declared(qos=[QOS[0], fewer, odd], accounts=[PHYSICS, OPTICS]), told["status"])
    assert odder["findings"] == [
        f"not set in slurmdbd: QOS odd GrpTRES=gres/nonesuch=1: {NO_EFFECT}",
    ]

    # A job of one of them: its user, account and QOS stay until it has ended.
    submit = ("sbatch", "--uid=games", "-A", "optics", "-o", "/dev/null", "--wrap", "true")
    submitted = room.sh(*submit)
    assert "Submitted batch job" in submitted
    assert "AssocMaxSubmitJobLimit" in room.sh(*submit), "slurmctld keeps to the limit"
    gone = declared(removal="delete")
    told = room.bring(gone, odder["status"])
    assert any("user games in optics deleted" in line and "Job(s) active" in line for line in told["findings"])
    assert [row for row in shown(*limits) if row.startswith("optics|games|")]
    assert {"high", "low"} <= set(shown("qos", "name")), "the account's QOS stay, too"
    room.sh("scancel", submitted.split()[-1])
    _until_ended(room)
    told = room.bring(gone, told["status"])
    assert told["findings"] == []
    assert {row.split("|")[0] for row in shown("assoc", "account")} == {"root", "theirs"}
    assert shown("qos", "name") == ["normal"]
    assert shown("user", "user,admin", "where", "name=eve") == ["eve|Operator"]


def _until_ended(room: AccountingRoom) -> None:
    """Wait until slurmdbd has the end of each job."""
    states = ("sacct", "-anXo", "state", "-S", "now-1hour")
    room.wait(lambda: not {"PENDING", "RUNNING"} & set(room.sh(*states).split()))
