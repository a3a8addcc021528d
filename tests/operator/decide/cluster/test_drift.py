"""Promises of the decisions about drift: what is applied, what is removed, what is told."""

from __future__ import annotations

import copy
import datetime
import json
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st
from slurm_operator.decide.cluster import ownership
from slurm_operator.decide.cluster.drift import restore, rounds
from slurm_operator.findings import Finding
from slurm_operator.reconcile.drift import DriftReconciler

from contract.conditions import Reason

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
MINUTE = datetime.timedelta(minutes=1)
Body = dict[str, Any]


def tree(value: Any) -> Body:
    """The fields of a value as a server-side apply owns them; lists of named items are keyed, others are atomic."""
    if isinstance(value, list) and value and all(isinstance(item, dict) and "name" in item for item in value):
        return {f"k:{json.dumps({'name': item['name']})}": {".": {}, **tree(item)} for item in value}
    return {f"f:{key}": tree(inner) for key, inner in value.items()} if isinstance(value, dict) else {}


def live(content: Body, owners: dict[str, Body], kind: str = "ConfigMap", name: str = "a", version: int = 1) -> Body:
    """An object with the fields that each manager owns."""
    entries = [{"manager": manager, "operation": "Apply", "fieldsV1": fields} for manager, fields in owners.items()]
    content.setdefault("apiVersion", "v1")
    metadata = {"name": name, "uid": "u1", "resourceVersion": str(version), "managedFields": entries}
    return {"kind": kind, "metadata": {**metadata, **content.pop("metadata", {})}, **content}


def plain(files: Body) -> Body:
    return live({"data": files}, {"pulumi-slurm": tree({"data": files})})


def ledger(*objects: Body, revision: str = "r1") -> rounds.Ledger:
    return rounds.Ledger(revision, {(each["kind"], each["metadata"]["name"]): each for each in objects})


@pytest.mark.parametrize(
    ("revision", "found", "minutes", "status", "reason"),
    [
        ("r1", ledger(), 0, "True", "Held"),
        ("r1", ledger(revision="r2"), 0, "False", "UpdateInProgress"),
        ("r1", ledger(revision="r2"), 29, "False", "UpdateInProgress"),
        ("r1", ledger(revision="r2"), 30, "False", "UpdateFailed"),
        ("r1", None, 0, "False", "LedgerMissing"),
    ],
)
def test_objects_are_held_only_while_the_declaration_is_complete(
    revision: str, found: rounds.Ledger | None, minutes: int, status: str, reason: str
) -> None:
    said = rounds.standing(revision, found, NOW - minutes * MINUTE, NOW)
    assert (said.status, said.reason) == (status, reason)


DECLARED = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}}
CLAIM = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {"size": "1Gi"}}
EDITED = live({"data": {"x": "2"}}, {"kubectl": tree({"data": {"x": "2"}})})
LEAVING = live({"metadata": {"deletionTimestamp": "now"}}, {})


def test_what_was_not_seen_is_not_touched() -> None:
    assert rounds.plan(ledger(DECLARED), {}, {}, {}, {}, NOW) == rounds.Plan((), ())


def test_what_is_missing_or_changed_is_applied_and_what_is_clean_is_not() -> None:
    key = ("ConfigMap", "a")
    for before in (None, EDITED):
        planned = rounds.plan(ledger(DECLARED), {key: before}, {key: "other"}, {}, {}, NOW)
        assert planned == rounds.Plan((restore.Check(DECLARED, before),), ())
    clean = {key: restore.fingerprint(EDITED)}
    assert rounds.plan(ledger(DECLARED), {key: EDITED}, clean, {}, {}, NOW) == rounds.Plan((), ())


def test_what_is_going_is_waited_for() -> None:
    assert rounds.plan(ledger(DECLARED), {("ConfigMap", "a"): LEAVING}, {}, {}, {}, NOW) == rounds.Plan((), ())


@pytest.mark.parametrize(
    ("name", "replicas", "applied"),
    [("slurm-operator", 0, 0), ("slurm-operator", 2, 1), ("slurm-rest", 0, 1)],
    ids=["switched off", "doubled", "another's size"],
)
def test_who_scales_the_operator_to_nothing_is_let_be(name: str, replicas: int, applied: int) -> None:
    declared = {"kind": "Deployment", "metadata": {"name": name}, "spec": {"replicas": 1}}
    found = live({"spec": {"replicas": replicas}}, {}, kind="Deployment", name=name)
    plan = rounds.plan(ledger(declared), {("Deployment", name): found}, {}, {}, {}, NOW)
    assert len(plan.checks) == applied


@pytest.mark.parametrize("before", [None, LEAVING])
def test_a_deleted_claim_is_never_made_anew(before: Body | None) -> None:
    planned = rounds.plan(ledger(CLAIM), {("PersistentVolumeClaim", "c"): before}, {}, {}, {}, NOW)
    assert planned.checks == ()
    assert [each.reason for each in planned.problems] == ["ClaimDeleted"]


def test_who_changes_an_object_again_and_again_is_named_and_let_be_for_a_while() -> None:
    key = ("ConfigMap", "a")
    healed = {key: [NOW - datetime.timedelta(seconds=number) for number in range(rounds.FOUGHT_OVER)]}
    planned = rounds.plan(ledger(DECLARED), {key: EDITED}, {}, healed, {}, NOW)
    assert planned.checks == ()
    assert "kubectl" in planned.problems[0].message
    assert rounds.plan(ledger(DECLARED), {key: EDITED}, {}, healed, {}, NOW + MINUTE).checks


WHY = Finding(Reason.ACTION_REFUSED, 'Heal: PATCH /x/a: ConfigMap "a" is invalid')


def test_a_refused_heal_is_tried_ever_less_often_and_told_with_the_objects_name_and_the_refusal() -> None:
    key, last, now, pauses = ("ConfigMap", "a"), None, NOW, []
    for _ in range(8):
        last = rounds.refused(restore.Check(DECLARED, EDITED), last, WHY, now)
        pauses.append((last.until - now).total_seconds())
        assert rounds.plan(ledger(DECLARED), {key: EDITED}, {}, {}, {key: last}, now).resting == {key}
        now = last.until
        assert rounds.plan(ledger(DECLARED), {key: EDITED}, {}, {}, {key: last}, now).checks
    assert pauses == [3, 6, 12, 24, 48, 60, 60, 60]
    assert last is not None
    assert last.problem == Finding(Reason.ACTION_REFUSED, f"ConfigMap a cannot be restored: {WHY.message}")


@pytest.mark.parametrize("before", [None, plain({"x": "3"})], ids=["gone", "changed"])
def test_what_changes_after_a_refusal_is_tried_at_once(before: Body | None) -> None:
    key, last = ("ConfigMap", "a"), rounds.refused(restore.Check(DECLARED, EDITED), None, WHY, NOW)
    assert rounds.plan(ledger(DECLARED), {key: before}, {}, {}, {key: last}, NOW).checks == (
        restore.Check(DECLARED, before),
    )


def test_a_conflict_is_tried_again_at_once_and_one_that_lasts_is_told_and_tried_less_often() -> None:
    key, last, pauses = ("ConfigMap", "a"), None, []
    for _ in range(7):
        last = rounds.conflicted(restore.Check(DECLARED, EDITED), last, NOW)
        pauses.append((last.until - NOW).total_seconds())
        assert (last.problem is None) == (last.times < rounds.CONFLICTS_TOLD)
    assert pauses == [0, 0, 0, 0, 3, 6, 12]
    assert last is not None
    other = plain({"x": "3"})
    assert rounds.plan(ledger(DECLARED), {key: other}, {}, {}, {key: last}, NOW).resting == {key}, "it changes always"


def test_an_apply_names_the_version_that_was_seen_and_leaves_a_claims_size() -> None:
    assert restore.body(restore.Check(DECLARED, None)) == DECLARED
    metadata = restore.body(restore.Check(DECLARED, EDITED))["metadata"]
    assert metadata == {"name": "a", "uid": "u1", "resourceVersion": "1"}
    grown = live({"spec": {"size": "2Gi", "volumeName": "v"}}, {}, "PersistentVolumeClaim", "c")
    assert restore.body(restore.Check(CLAIM, grown))["spec"] == {"size": "2Gi"}


@pytest.mark.parametrize(
    ("pods", "size"),
    [([], 0), (["cpu-0", "cpu-1"], 2), (["cpu-3"], 4), (["cpu-0", "gpu-7", "cpu-x", "cpu-1-9"], 1)],
)
def test_a_set_is_made_anew_with_a_size_that_deletes_no_pod(pods: list[str], size: int) -> None:
    assert restore.size_of("cpu", pods) == size


def test_the_operator_gives_back_what_is_not_the_size() -> None:
    size = tree({"spec": {"replicas": 2}})
    assert not restore.gives_back(live({}, {"pulumi-slurm-operator": size}))
    assert restore.gives_back(live({}, {"pulumi-slurm-operator": tree({"spec": {"replicas": 2, "serviceName": "a"}})}))
    assert not restore.gives_back(live({}, {"pulumi-slurm": tree({"spec": {"serviceName": "a"}})}))


@pytest.mark.parametrize(
    ("theirs", "surplus"),
    [
        ({"spec": {"template": {"image": "x"}}}, []),
        ({"spec": {"replicas": 3}}, []),
        ({"status": {"ready": 1}}, []),
        ({"metadata": {"annotations": {"a": "b"}}}, []),
        ({"spec": {"template": {"metadata": {"annotations": {"restartedAt": "x"}}}}}, []),
        ({"metadata": {"labels": {"mine": "x"}}}, ["metadata.labels.mine"]),
        ({"spec": {"paused": True}}, ["spec.paused"]),
        ({"spec": {"containers": [{"name": "evil", "image": "x"}]}}, ["spec.containers[name=evil]"]),
        ({"spec": {"containers": [{"name": "own", "tty": True}]}}, ["spec.containers[name=own].tty"]),
        ({"data": {"x": "1"}, "immutable": True}, ["data.x", "immutable"]),
    ],
)
def test_fields_of_others_are_surplus_where_everything_is_ours(theirs: Body, surplus: list[str]) -> None:
    ours = {"spec": {"template": {"image": "x"}, "containers": [{"name": "own", "image": "y"}]}}
    found = live({}, {"pulumi-slurm": tree(ours), "kubectl": tree(theirs)}, "Deployment")
    assert [ownership.text(path) for path in restore.surplus(found)] == surplus


def test_of_a_claim_only_labels_are_ours_alone() -> None:
    theirs = tree({"spec": {"volumeName": "v"}, "metadata": {"labels": {"mine": "x"}}})
    found = live({}, {"kube-controller-manager": theirs}, "PersistentVolumeClaim")
    assert [ownership.text(path) for path in restore.surplus(found)] == ["metadata.labels.mine"]


def test_a_heal_is_told_with_field_and_writer_and_without_a_value() -> None:
    before = live(
        {"data": {"x": "his-value"}}, {"pulumi-slurm": tree({"data": {"y": 1}}), "vi": tree({"data": {"x": 1}})}
    )
    after = plain({"x": "secret", "y": "1", "z": "1"})
    told = restore.describe(before, after)
    assert told == "restored ConfigMap a: data.x (by vi), data.z (removed, nobody is noted)"
    assert restore.describe(None, after) == "restored ConfigMap a, which was deleted"
    assert restore.describe(after, copy.deepcopy(after)) == ""
    assert restore.describe(plain({"x": "1"}), plain({"x": "2"})).endswith("changed under the name of Pulumi")


def test_status_and_bookkeeping_are_no_content() -> None:
    other = {**plain({"x": "1"}), "status": {"ready": 1}}
    other["metadata"] = {**other["metadata"], "resourceVersion": "2", "generation": 7, "managedFields": []}
    assert restore.fingerprint(other) == restore.fingerprint(plain({"x": "1"}))
    assert restore.fingerprint(plain({"x": "2"})) != restore.fingerprint(plain({"x": "1"}))


KEYS = st.sampled_from(["a", "b", "c/d", "e~f", "g.h"])
VALUES = st.recursive(
    st.integers(0, 3),
    lambda inner: st.dictionaries(KEYS, inner, min_size=1, max_size=3)
    | st.dictionaries(KEYS, st.dictionaries(KEYS, inner, max_size=2), min_size=1, max_size=3).map(
        lambda items: [{"name": name, **fields} for name, fields in items.items()]
    ),
    max_leaves=12,
)
SPECS = st.dictionaries(KEYS, VALUES, max_size=4)


def merged(ours: Any, theirs: Any) -> Any:
    """Return what an API server makes of two appliers, the first of which was the last to force its values."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return {
            key: merged(ours[key], theirs[key]) if key in ours and key in theirs else ours.get(key, theirs.get(key))
            for key in [*ours, *(key for key in theirs if key not in ours)]
        }
    if isinstance(ours, list) and isinstance(theirs, list):
        one, other = ({item["name"]: item for item in items} for items in (ours, theirs))
        return list(merged(one, other).values())
    return ours


def same_shape(one: Any, other: Any) -> bool:
    """Return whether fields that both have are of one kind, as a schema would have it."""
    if isinstance(one, list) and isinstance(other, list):
        one, other = ({item["name"]: item for item in items} for items in (one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return all(same_shape(one[key], other[key]) for key in one.keys() & other.keys())
    return type(one) is type(other)


def applied(found: Body, handed: Body, ours: Body) -> Any:
    """Return what an API server makes of Pulumi's next apply: what Pulumi alone owned and does not declare goes."""
    after = {**found, "metadata": {**found["metadata"], **handed["metadata"]}}
    owned, others = ownership.declared(after), [fields for _, fields in ownership.foreign(after)]

    def stays(path: ownership.Path) -> bool:
        declared_or_others = [tree({"spec": ours}), *others]
        return any(ownership.has(each, path) for each in declared_or_others) or not ownership.has(owned, path)

    def pruned(value: Any, path: ownership.Path) -> Any:
        if isinstance(value, list):
            items = [(f"k:{json.dumps({'name': item['name']})}", item) for item in value]
            return [pruned(item, (*path, key)) for key, item in items if stays((*path, key))]
        if isinstance(value, dict):
            return {key: pruned(value[key], (*path, f"f:{key}")) for key in value if stays((*path, f"f:{key}"))}
        return value

    return pruned(found["spec"], ("f:spec",))


@hypothesis.settings(max_examples=200)
@hypothesis.given(ours=SPECS, theirs=SPECS)
def test_whatever_others_add_goes_and_what_is_declared_stays(ours: Body, theirs: Body) -> None:
    hypothesis.assume(same_shape(ours, theirs))
    owners = {"pulumi-slurm": tree({"spec": ours}), "kubectl": tree({"spec": theirs})}
    found = live({"spec": merged(ours, theirs)}, owners, "Deployment")
    handed = restore.handing_over(found)
    assert applied(found, handed or {"metadata": {}}, ours) == ours


def test_a_new_owner_of_everything_keeps_a_sets_size_and_annotations() -> None:
    """A worker set that somebody made anew: without its size, which is not declared, it would fall to one node."""
    theirs = tree({"spec": {"replicas": 5, "serviceName": "x", "template": {"metadata": {"annotations": {"a": "b"}}}}})
    found = live({}, {"kubectl-create": theirs}, "StatefulSet")
    handed = restore.handing_over(found)
    assert handed is not None
    entries = {each["manager"]: each["fieldsV1"] for each in handed["metadata"]["managedFields"]}
    annotations = tree({"template": {"metadata": {"annotations": {"a": "b"}}}})
    assert entries["kubectl-create"] == {"f:spec": {"f:replicas": {}, **annotations}}
    assert entries["pulumi-slurm"] == tree({"spec": {"serviceName": "x"}})


def test_fields_are_handed_over_on_the_very_object_that_was_seen() -> None:
    ours, theirs = tree({"spec": {"a": 1}}), tree({"spec": {"b": {"c": 1}}})
    found = live({}, {"pulumi-slurm": ours, "kubectl": theirs, "pulumi-slurm-operator": theirs}, "Service")
    handed = restore.handing_over(found)
    assert handed is not None
    assert {key: handed["metadata"][key] for key in ("uid", "resourceVersion")} == {"uid": "u1", "resourceVersion": "1"}
    entries = {each["manager"]: each["fieldsV1"] for each in handed["metadata"]["managedFields"]}
    both = tree({"spec": {"a": 1, "b": {"c": 1}}})
    assert entries == {"pulumi-slurm": both, "pulumi-slurm-operator": theirs}
    assert restore.handing_over(plain({"x": "1"})) is None


def test_nobody_acts_on_files_before_the_ledger_is_known() -> None:
    nothing: Any = None
    reconciler = DriftReconciler(nothing, nothing, lambda: None, lambda: None)
    assert reconciler.has_drifted("ConfigMap", "slurm-config-wanted", {"slurm.conf": "as declared"})
    reconciler._ledger = rounds.Ledger(
        "1", {("ConfigMap", "slurm-config-wanted"): {"data": {"slurm.conf": "as declared"}}}
    )
    assert not reconciler.has_drifted("ConfigMap", "slurm-config-wanted", {"slurm.conf": "as declared"})
    assert reconciler.has_drifted("ConfigMap", "slurm-config-wanted", {"slurm.conf": "edited"})
