"""Promises about what slurmrestd is asked and told of QOS, accounts and users, with answers of a real slurmdbd."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from slurm_operator.accounts import Database, Entity, Kind
from slurm_operator.clients.slurm import slurm_accounts
from slurm_operator.clients.slurm.slurm_error import SlurmError
from slurm_operator.clients.slurm.slurmrestd_answers import Users
from slurm_operator.decide.cluster.accounts import Change, Removal

from tests.operator.played.played_database import ACCOUNT, OWN, QOS, USER

RECORDED = json.loads((Path(__file__).parents[2] / "recorded" / "accounts.json").read_text())
HIGH, PHYSICS, OPTICS = Entity(QOS, "high"), Entity(ACCOUNT, "physics"), Entity(ACCOUNT, "optics")
ALICE = Entity(USER, "optics/alice")


def _read() -> Database:
    parts = {
        "qos": slurm_accounts.Qos,
        "accounts": slurm_accounts.Accounts,
        "associations": slurm_accounts.Associations,
        "users": Users,
    }
    read: dict[str, Any] = {
        key: msgspec.json.decode(json.dumps(RECORDED[key]).encode(), type=kind) for key, kind in parts.items()
    }
    return slurm_accounts.database("test", **read)


def test_the_answers_of_a_real_slurmdbd_are_read() -> None:
    found = _read()
    assert found.records == {
        **OWN,
        Entity(ACCOUNT, "root"): {
            "Description": "default root account", "Organization": "root", "Parent": "", "QOS": "normal",
        },
        Entity(QOS, "normal"): {"Description": "Normal QOS default"},
        Entity(QOS, "low"): {},
        HIGH: {
            "Description": "High", "Flags": "DenyOnLimit,NoDecay", "GraceTime": "30", "MaxJobsPerUser": "5",
            "GrpTRES": "cpu=10,gres/gpu=4,mem=2048", "MaxWallDurationPerJob": "1440", "Preempt": "low",
            "PreemptExemptTime": "60", "PreemptMode": "requeue", "Priority": "100", "UsageFactor": "0.5",
        },
        PHYSICS: {
            "Coordinators": "alice", "DefaultQOS": "high", "Description": "Physics", "Fairshare": "10",
            "GrpJobs": "20", "Organization": "uni", "QOS": "high,normal",
        },
        OPTICS: {"Description": "optics", "Organization": "optics", "Parent": "physics"},
        ALICE: {
            "DefaultAccount": "yes", "Fairshare": "parent", "MaxJobs": "3", "MaxTRESPerJob": "cpu=4,gres/gpu=1",
            "QOS": "high",
        },
        Entity(ACCOUNT, "theirs"): {"Description": "theirs", "Organization": "theirs"},
        Entity(USER, "theirs/eve"): {"DefaultAccount": "yes"},
    }  # fmt: skip
    assert found.administrators == {"root", "eve"}
    here = [other.title for other in found.others if not other.elsewhere]
    assert here == ["user eve in theirs with partition p"]
    assert {other.title for other in found.others if other.elsewhere} == {
        "account root of cluster other", "user root in root of cluster other", "account theirs of cluster other",
    }  # fmt: skip


def test_an_answer_of_another_shape_is_told() -> None:
    with pytest.raises(SlurmError, match=r"accounts: a record of another shape: KeyError\('description'\)"):
        slurm_accounts.database("test", slurm_accounts.Qos([], [{"name": "x"}]), None, None, None)


N2 = {"set": True, "infinite": False, "number": 2}
NONE = {"set": True, "infinite": True, "number": 0}


@pytest.mark.parametrize(
    ("change", "path", "body"),
    [
        (
            Change(HIGH, {"GrpTRES": "cpu=2", "MaxJobsPerUser": ""}, {"GrpTRES": "gres/gpu=4", "Flags": "NoDecay"}),
            "/qos/",
            {
                "name": "high",
                "flags": ["NO_DECAY"],
                "preempt": {"mode": ["DISABLED"]},
                "limits": {
                    "max": {
                        "tres": {
                            "total": [
                                {"type": "cpu", "name": "", "count": 2},
                                {"type": "gres", "name": "gpu", "count": -1},
                            ]
                        },
                        "jobs": {"active_jobs": {"per": {"user": NONE}}},
                    }
                },
            },
        ),
        (
            Change(ALICE, {"MaxJobs": "2"}, {"GrpTRES": "cpu=9", "GrpJobs": "7", "QOS": "high"}),
            "/associations/",
            {
                "account": "optics", "user": "alice", "cluster": "test", "partition": "", "qos": [],
                "max": {"jobs": {"active": N2}, "tres": {"total": [{"type": "cpu", "name": "", "count": 9}]}},
            },
        ),
        (
            Change(PHYSICS, {"Description": "Light"}, {"Coordinators": "alice", "Organization": "uni", "MaxJobs": "2"}),
            "/accounts/",
            {"name": "physics", "description": "Light", "organization": "uni", "coordinators": [{"name": "alice"}]},
        ),
    ],
    ids=["QOS: flags, mode and lost TRES", "association: all TRES, no QOS", "account: all texts and coordinators"],
)  # fmt: skip
def test_a_change_says_again_what_slurmrestd_would_take_away(change: Change, path: str, body: object) -> None:
    ((where, sent),) = slurm_accounts.requests("test", change)
    (listed,) = sent.values()
    assert (where, listed) == (path, [body])


def test_no_list_has_an_empty_name_which_would_end_slurmrestd() -> None:
    for entity, word in ((HIGH, "Preempt"), (PHYSICS, "QOS"), (ALICE, "QOS"), (PHYSICS, "Coordinators")):
        for _, body in slurm_accounts.requests("test", Change(entity, {word: ""}, {})):
            assert '""]' not in json.dumps(body)
            assert '{"name": ""}' not in json.dumps(body)


def test_an_association_is_deleted_alone_and_by_name() -> None:
    path, params = slurm_accounts.deletion("test", Removal(ALICE))
    assert (path, params) == (
        "/association/",
        {"account": "optics", "user": "alice", "cluster": "test", "partition": ""},
    )
    assert slurm_accounts.deletion("test", Removal(ALICE, whole=True)) == ("/user/alice", {})
    assert slurm_accounts.deletion("test", Removal(Entity(Kind.QOS, "a.b"))) == ("/qos/a.b", {})
