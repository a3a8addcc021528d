"""A wrong configuration is refused with all of its errors, by the keys that somebody wrote, and without secrets."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pytest
from pulumi.runtime import config as pulumi_config

from components.config import ConfigurationError, from_pulumi, parse
from tests.unit.samples import SMALL, changed


def test_all_errors_are_told_at_once() -> None:
    raw = changed("nodeSets.0.resources.memory", "64GG")
    raw = changed("partitions", [{"name": "main", "nodeSets": ["gone"]}], raw)
    raw = changed("images.slurm", "slurm:latest", raw)
    raw = changed("slurm.options", {"PlugStackConfig": "x"}, raw)
    with pytest.raises(ConfigurationError) as refused:
        parse(raw)
    paths = [".".join(str(part) for part in problem.path) for problem in refused.value.problems]
    assert sorted(paths) == [
        "images.slurm",
        "nodeSets.0.resources.memory",
        "partitions.0.nodeSets.0",
        "slurm.options.PlugStackConfig",
    ]
    assert str(refused.value).startswith("4 errors in the configuration; nothing was changed:\n")


def test_what_a_site_may_get_wrong_in_slurms_words_is_told_at_once() -> None:
    """Each with its path and what would be right, whatever else is wrong."""
    tree = {"name": "fabric", "type": "tree", "switches": {"core": ["rack1"]}}
    sidecar = {"name": "shipper", "image": "shipper:0123abcd4567"}
    raw: dict[str, Any] = changed("nodeSets.0.features", ["avx512,bigmem"])
    raw["nodeSets"][0]["options"] = {"tmpDisk": 1}
    raw["nodeSets"][0]["pod"] = {"sidecars": [{**sidecar, "volumeMounts": [{"name": "jail", "mountPath": "/jail"}]}]}
    raw["slurm"] = {
        "options": {"SchedulerParameter": "defer", "DebugFlags": "a\nSlurmUser=root", "KillWait": "30 # seconds"},
        "scripts": {"prolog": [{"name": "scratch", "text": "mkdir /scratch\n"}]},
        "topologies": [tree],
    }
    accounts = [{"name": "a", "parent": "b", "qos": ["fast"]}, {"name": "b", "parent": "a"}]
    raw["accounting"] = {"mode": "mariadb", "enforce": ["qos"], "accounts": accounts}
    with pytest.raises(ConfigurationError) as refused:
        parse(raw)
    told = {str(problem).partition(": got ")[0]: problem.want for problem in refused.value.problems}
    wanted = {
        "accounting.accounts[0].parent": "an account that is not below a itself: a → b → a",
        "accounting.accounts[0].qos[0]": "normal, or the name of a QOS of accounting.qos; there are: none",
        "accounting.accounts[1].parent": "an account that is not below b itself: b → a → b",
        "nodeSets[0].features[0]": "a feature of Slurm: letters, digits",
        "nodeSets[0].options.tmpDisk": "TmpDisk, as Slurm writes it",
        "nodeSets[0].pod.sidecars[0].volumeMounts[0].name": "the name of a volume of the pod's own volumes",
        "slurm.options.DebugFlags": "one value without spaces, quotes, `#`, backslashes or newlines",
        "slurm.options.KillWait": "one value without spaces, quotes, `#`, backslashes or newlines",
        "slurm.options.SchedulerParameter": "that Slurm 26.05 knows; did you mean SchedulerParameters?",
        "slurm.scripts.prolog[0].text": "text that begins with `#!` and an interpreter",
        "slurm.topologies[0].name": "one that a node set names: nodeSets[].topology with name: fabric",
    }
    assert told.keys() == {f"pulumi-slurm:{path}" for path in wanted}
    assert {path for path, want in wanted.items() if want not in told[f"pulumi-slurm:{path}"]} == set()


def problems(raw: dict[str, Any]) -> list[str]:
    with pytest.raises(ConfigurationError) as refused:
        parse(raw)
    return [str(problem).partition("; want ")[0] for problem in refused.value.problems]


MAIN = {"name": "main", "nodeSets": ["cpu"]}


def test_contradictions_of_a_partition_are_told_at_once() -> None:
    wrong = {"minNodes": 3, "maxNodes": 2, "defaultTime": "2-0", "maxTime": "1-0", "options": {"QOS": "a"}}
    raw = changed("partitions", [{**MAIN, **wrong}, {**MAIN, "name": "b", "qos": "short"}])
    assert sorted(problems(changed("accounting", {"mode": "off"}, raw))) == [
        "pulumi-slurm:partitions[0].defaultTime: got '2-0'",
        "pulumi-slurm:partitions[0].minNodes: got 3",
        "pulumi-slurm:partitions[0].options.QOS: got 'QOS'",
        "pulumi-slurm:partitions[1].qos: got 'short'",
    ]


def test_suspended_jobs_go_on_only_with_gang() -> None:
    raw = changed("partitions", [{**MAIN, "preemptMode": "SUSPEND"}])
    by_tier = {"PreemptType": "preempt/partition_prio", "PreemptMode": "CANCEL"}
    assert problems(changed("slurm.options", by_tier, raw)) == ["pulumi-slurm:partitions[0].preemptMode: got 'SUSPEND'"]
    parse(changed("slurm.options", {**by_tier, "PreemptMode": "SUSPEND,GANG"}, raw))


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        # Rules run on what is right of a list, a map and a section, under the positions that somebody wrote.
        ("jail.persistent", [3, "/usr"], ["jail.persistent[0]: got 3", "jail.persistent[1]: got '/usr'"]),
        (
            "slurm.options",
            {"DebugFlags": "a b", "JobCompType": "jobcomp/script"},
            ["slurm.options.DebugFlags: got 'a b'", "slurm.options.JobCompType: got 'jobcomp/script'"],
        ),
        (
            "directory",
            {"uri": "ldaps://ldap.example", "interval": "soon"},
            ["directory.base: got nothing", "directory.interval: got 'soon'"],
        ),
        # A rule does not speak of a value that is wrong by itself.
        ("nodeSets.0.resources.memory", "0Gi", ["nodeSets[0].resources.memory: got '0Gi'"]),
        ("nodeSets.0.name", "A", ["nodeSets[0].name: got 'A'"]),
        # What nobody wrote is shown if it does not fit.
        ("certificates", {"mode": "existing", "duration": "24h"}, ["certificates.renewBefore: got '720h'"]),
    ],
)
def test_rules_run_on_what_is_right(path: str, value: Any, expected: list[str]) -> None:
    raw = changed(path, value, changed("partitions", [{"name": "main", "nodeSets": ["cpu"]}]))
    assert problems(raw) == [f"pulumi-slurm:{each}" for each in expected]


@pytest.mark.parametrize("key", ["cluster", "images", "jail", "nodeSets"])
def test_a_missing_key_is_told_with_its_purpose(key: str) -> None:
    raw = {name: value for name, value in SMALL.items() if name != key}
    with pytest.raises(ConfigurationError, match=rf"pulumi-slurm:{key}: got nothing; want this key: \w"):
        parse(raw)


def test_pulumi_shows_the_errors_without_a_traceback() -> None:
    # The language host prints a RunError's text alone; any other exception comes with a traceback.
    assert issubclass(ConfigurationError, pulumi.RunError)


def test_an_error_never_repeats_a_secret() -> None:
    raw = changed("kubernetes.kubeconfig", {"token": "hunter2"})
    with pytest.raises(ConfigurationError) as refused:
        parse(raw)
    assert "hunter2" not in str(refused.value)
    assert "hunter2" not in repr(refused.value.__cause__ or refused.value.__context__ or "") or (
        refused.value.__suppress_context__
    )
    assert "got '[secret]'" in str(refused.value)


def test_keys_that_are_secret_in_pulumi_are_not_shown() -> None:
    raw = changed("slurm.options", {"DebugFlags": "hunter2 #"})
    with pytest.raises(ConfigurationError) as refused:
        parse(raw, secret_keys={"slurm"})
    assert "hunter2" not in str(refused.value)


def test_a_kubeconfig_is_not_shown_by_the_configuration_itself() -> None:
    assert "hunter2" not in repr(parse(changed("kubernetes.kubeconfig", "hunter2")))


def test_every_key_of_the_namespace_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = {f"pulumi-slurm:{key}": json.dumps(value) for key, value in {**SMALL, "nodesets": []}.items()}
    monkeypatch.delenv("PULUMI_CONFIG", raising=False)
    pulumi.runtime.set_all_config({**stack, "kubernetes:context": "other"})
    try:
        with pytest.raises(ConfigurationError, match=r"pulumi-slurm:nodesets: got \[\]; want no such key \(did you"):
            from_pulumi()
    finally:
        pulumi_config.set_all_config({})


def test_the_stack_file_of_a_right_configuration_is_taken() -> None:
    pulumi.runtime.set_all_config({f"pulumi-slurm:{key}": json.dumps(value) for key, value in SMALL.items()})
    try:
        assert from_pulumi() == parse(SMALL)
    finally:
        pulumi_config.set_all_config({})


def test_a_persistent_path_has_no_share_in_an_error_of_another() -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse(changed("jail.persistent", [3, "/home"]))
    assert "jail.persistent[0]: got 3; want" in str(refused.value)
    assert "/home" not in str(refused.value)


def test_a_wrong_connection_is_not_repeated() -> None:
    for text in ("mysql://a:hunter2@c", "mysql://a:hunter2@c/d d", {"hunter2": 1}):
        with pytest.raises(ConfigurationError) as refused:
            parse(changed("accounting", {"mode": "external", "external": {"connection": text}}))
        assert "hunter2" not in str(refused.value)
