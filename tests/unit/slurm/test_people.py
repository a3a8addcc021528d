"""QOS, accounts and users of the configuration: each field has an effect, and what is wrong is told all at once."""

from __future__ import annotations

from typing import Any

import pytest

from components import slurm_cluster
from components.config import ConfigurationError, parse
from components.slurm.conf import slurm_conf
from tests.unit.effects.declared import Probe
from tests.unit.effects.people_effects import BASE, EFFECTS, PEOPLE
from tests.unit.samples import changed

QOS = [{"name": "low"}, {"name": "high"}]


def refusal(value: Any, path: str = "accounting", base: dict[str, Any] | None = None) -> list[str]:
    """The lines about what is wrong."""
    with pytest.raises(ConfigurationError) as refused:
        parse(changed(path, value, base))
    return [line.strip() for line in str(refused.value).splitlines()[1:]]


@pytest.mark.parametrize(
    ("path", "value", "probe", "expected"), EFFECTS, ids=[f"{path}-{n}" for n, (path, *_) in enumerate(EFFECTS)]
)
def test_the_field_does_what_it_says(path: str, value: Any, probe: Probe, expected: Any) -> None:
    base = changed("accounting", PEOPLE, BASE)
    assert probe(parse(changed(path, value, base))) == expected
    if not path.endswith(".name"):  # A record of another name is not there before.
        assert probe(parse(base)) != expected, f"{path} changes nothing"


def test_without_people_the_operator_leaves_accounts_alone() -> None:
    def spec(accounting: dict[str, Any]) -> Any:
        return slurm_cluster.cluster_resource(parse(changed("accounting", accounting)))["spec"].get("accounts")

    assert spec({"mode": "mariadb"}) is None
    assert spec({"mode": "mariadb", "removal": "keep"}) is None
    # What an earlier configuration made is to go.
    assert spec({"mode": "mariadb", "removal": "delete"}) == {
        "removal": "delete",
        "qos": {},
        "accounts": {},
        "users": {},
    }


def test_people_stand_in_no_file_of_slurms() -> None:
    with_people = parse(changed("accounting", {**PEOPLE, "removal": "delete"}, BASE))
    without = parse(changed("accounting", {"mode": "mariadb", "enforce": ["safe", "qos"]}, BASE))
    assert slurm_conf.files(with_people) == slurm_conf.files(without)


def test_all_that_is_wrong_with_people_is_told_at_once() -> None:
    wrong = {
        "mode": "mariadb",
        "qos": [{"name": "a", "preempts": ["b"]}, {"name": "b", "preempts": ["a", "zz"], "limits": {"MaxJobs": 1}}],
        "accounts": [
            {"name": "x", "parent": "y", "defaultQos": "a"},
            {"name": "y", "parent": "x", "qos": ["nope", "a", "a"], "users": [{"name": "al"}, {"name": "al"}]},
            {"name": "z", "parent": "q", "coordinators": ["ghost"], "users": [{"name": "al", "fairshare": "much"}]},
            {"name": "root"},
        ],
    }
    told = refusal(wrong, base=BASE)
    at = "pulumi-slurm:accounting."
    for line in (
        f'{at}qos[0].preempts: got ["b"]; want no QOS that preempts a in turn, as Slurm refuses: a → b → a',
        f"{at}qos[1].preempts[1]: got 'zz'; want normal, or the name of a QOS of accounting.qos; there are: a, b",
        f"{at}accounts[0].parent: got 'y'; want an account that is not below x itself: x → y → x",
        f"{at}accounts[1].qos[0]: got 'nope'; want normal, or the name of a QOS of accounting.qos; there are: a, b",
        f"{at}accounts[1].qos[2]: got 'a'; want each QOS once",
        f"{at}accounts[1].users[1].name: got 'al'; want another name: users[0] has this one",
        f"{at}accounts[2].coordinators[0]: got 'ghost'; want a user of one of accounting.accounts: "
        "Slurm knows no others",
        f"{at}accounts[2].parent: got 'q'; want root, or the name of an account; there are: x, y, z",
        f"{at}accounts[3].name: got 'root'; want another name: root is Slurm's own account",
    ):
        assert line in told
    (limit,) = [line for line in told if "limits.MaxJobs:" in line]
    assert "want a limit of a QOS (did you mean MaxJobsPer" in limit
    (shares,) = [line for line in told if "fairshare" in line]
    assert shares.startswith(f"{at}accounts[2].users[0].fairshare: got 'much'; want a whole number")


@pytest.mark.parametrize(
    ("people", "told"),
    [
        ({"accounts": [{"name": "x", "defaultQos": "high"}]}, "accounts[0].defaultQos: got 'high'; want one of the QOS "
         "that it may have (normal)"),
        ({"accounts": [{"name": "x", "qos": ["low"]}, {"name": "y", "parent": "x", "users": [{"name": "al",
         "defaultQos": "high"}]}]}, "accounts[1].users[0].defaultQos: got 'high'; want one of the QOS that it may have "
         "(low)"),
        ({"accounts": [{"name": "x", "users": [{"name": "al"}]}, {"name": "y", "users": [{"name": "al"}]}]},
         "accounts[0].users[0].default: got false; want true here or in another account of al"),
        ({"accounts": [{"name": "x", "users": [{"name": "al", "default": True}]},
         {"name": "y", "users": [{"name": "al", "default": True}]}]},
         "accounts[1].users[0].default: got true; want one default account of al: accounts[0].users[0] is it already"),
        ({"accounts": [{"name": "X"}]}, "accounts[0].name: got 'X'; want an account as sacctmgr shows it"),
        ({"qos": [*QOS, {"name": "low"}]}, "qos[2].name: got 'low'; want another name: qos[0] has this one"),
        ({"qos": [{"name": "a", "flags": ["Deny"]}]}, "qos[0].flags[0]: got 'Deny'; want one of DenyOnLimit"),
        ({"qos": [{"name": "a", "usageFactor": "half"}]}, "usageFactor: got 'half'; want a number such as 0.5"),
        ({"qos": [{"name": "a", "description": "it's"}]}, "description: got \"it's\"; want one line of text without"),
        ({"removal": "all"}, "removal: got 'all'; want one of 'keep' or 'delete'"),
        *(
            ({"enforce": ["safe"], "qos": [{"name": "a", "limits": {word: value}}]}, f"limits.{word}: got {value!r}; ")
            for word, value in (
                ("GrpTRES", "cpus=2"), ("GrpTRES", "cpu=2,cpu=3"), ("GrpTRES", "cpu=1G"), ("GrpTRES", "gres/gpu=-1"),
                ("GrpTRES", ""), ("GrpJobs", "-1"), ("GrpJobs", "5000000000"), ("GrpWall", "UNLIMITED"),
                ("MaxWallDurationPerJob", "soon"),
            )
        ),
    ],
)  # fmt: skip
def test_wrong_people_are_refused(people: dict[str, Any], told: str) -> None:
    accounting = {"mode": "mariadb", "qos": QOS, **people}
    assert any(told in line for line in refusal(accounting)), refusal(accounting)


def test_limits_that_slurm_would_not_enforce_are_refused() -> None:
    want = "accounting.enforce: got nothing; want limits or safe among them"
    limited = {"mode": "mariadb", "accounts": [{"name": "x", "users": [{"name": "al", "limits": {"MaxJobs": 1}}]}]}
    assert want in refusal(limited)[0]
    assert parse(changed("accounting", {**limited, "enforce": ["safe"]}))


@pytest.mark.parametrize("of", ["account", "user"])
def test_lists_of_qos_that_slurm_would_not_enforce_are_refused(of: str) -> None:
    user = {"name": "al", **({"qos": ["low"]} if of == "user" else {})}
    account = {"name": "x", "users": [user], **({"qos": ["low"]} if of == "account" else {})}
    listed = {"mode": "mariadb", "qos": QOS, "accounts": [account]}
    (told,) = refusal({**listed, "enforce": ["safe"]})
    assert 'accounting.enforce: got ["safe"]; want qos among them: Slurm keeps no job to the QOS of its account' in told
    assert parse(changed("accounting", {**listed, "enforce": ["qos"]}))


@pytest.mark.parametrize("key", ["preempts", "preemptMode", "graceTime", "preemptExemptTime"])
def test_preemption_that_slurm_would_ignore_is_refused(key: str) -> None:
    value = {"preempts": ["low"], "preemptMode": "cancel"}.get(key, 5)
    (told,) = refusal({"mode": "mariadb", "qos": [{"name": "low"}, {"name": "high", key: value}]})
    assert f"accounting.qos[1].{key}: got" in told
    assert "want nothing, or slurm.options.PreemptType: preempt/qos" in told


def test_a_suspended_job_must_be_able_to_go_on() -> None:
    (told,) = refusal({"mode": "mariadb", "qos": [{"name": "low", "preemptMode": "suspend"}]}, base=BASE)
    assert "accounting.qos[0].preemptMode: got 'suspend'; want another mode, or slurm.options.PreemptMode: SUSP" in told


def test_more_people_than_an_object_of_kubernetes_holds_are_refused() -> None:
    users = [{"name": f"u{number}"} for number in range(3000)]
    (told,) = refusal({"mode": "mariadb", "accounts": [{"name": "x", "users": users}]})
    assert "accounting.accounts: got 3001; want 3000 QOS, accounts and users in all" in told


def test_people_without_accounting_are_refused() -> None:
    told = refusal({"mode": "off", "accounts": [{"name": "x"}], "qos": QOS, "removal": "keep"})
    assert [line.partition(":")[2].partition(":")[0] for line in told] == [
        "accounting.accounts", "accounting.qos", "accounting.removal",
    ]  # fmt: skip
