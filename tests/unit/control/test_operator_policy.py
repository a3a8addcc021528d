"""The policy of the operator's rights, as the program declares it; tests/operator tries it on a real API server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from components import slurm_cluster
from components.config import parse
from components.control.cel import literal
from contract import names
from tests.unit.samples import GPU_SET, SMALL, Engine, changed, run_program

POLICY, BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
LONGEST_EXPRESSION = 100_000
"""Characters that cel-go's parser takes."""


def bodies(raw: dict[str, Any]) -> dict[str, Any]:
    """Kind → the two objects."""
    found = [each for each in slurm_cluster.manifests(parse(raw)) if each.kind in (POLICY, BINDING)]
    assert not any(each.held for each in found), "the operator may not restore, and so write, its own bounds"
    return {each.kind: each.body for each in found}


@pytest.fixture(scope="module")
def engine() -> Engine:
    return run_program(changed("nodeSets", [SMALL["nodeSets"][0], GPU_SET]))[0]


def test_each_stack_of_a_kubernetes_has_a_policy_of_its_own() -> None:
    one, other = bodies(SMALL), bodies(changed("cluster.namespace", "other"))
    for kind in (POLICY, BINDING):
        assert [each[kind]["metadata"]["name"] for each in (one, other)] == [
            "slurm-operator-slurm",
            "slurm-operator-other",
        ]
    assert other[BINDING]["spec"] == {"policyName": "slurm-operator-other", "validationActions": ["Deny"]}


def test_it_binds_the_operator_of_its_namespace_and_fails_closed() -> None:
    spec = bodies(SMALL)[POLICY]["spec"]
    (condition,) = spec["matchConditions"]
    assert condition["expression"] == 'request.userInfo.username == "system:serviceaccount:slurm:slurm-operator"'
    assert spec["failurePolicy"] == "Fail"
    selector = spec["matchConstraints"]["namespaceSelector"]
    assert selector == {"matchLabels": {"kubernetes.io/metadata.name": "slurm"}}


def test_a_policy_of_many_node_sets_is_one_that_kubernetes_takes() -> None:
    sets = [{**SMALL["nodeSets"][0], "name": f"set-{number}"} for number in range(200)]
    policy = bodies(changed("nodeSets", sets))[POLICY]
    lengths = [len(each["expression"]) for each in policy["spec"]["variables"]]
    assert max(lengths) < LONGEST_EXPRESSION
    assert len(json.dumps(policy)) < 1024 * 1024
    parts = [each["expression"] for each in policy["spec"]["variables"] if each["name"].startswith("pods")]
    for each in sets:
        assert sum(f'"statefulsets.apps/{each["name"]}"' in part for part in parts) == 1


def test_a_literal_is_of_one_type_at_each_level() -> None:
    """Kubernetes refuses a list or map of unlike values."""
    assert literal({"a": [1, "b"], "c": True}) == '{"a": dyn([dyn(1), dyn("b")]), "c": dyn(true)}'


def test_the_policy_follows_the_ledger_and_comes_before_what_it_allows(engine: Engine) -> None:
    ledger = engine.one("Secret", names.LEDGER).urn
    policies = [each for each in engine.kubernetes() if each.inputs["kind"] in (POLICY, BINDING) and not _is_crds(each)]
    assert len(policies) == 2
    for each in policies:
        assert ledger in each.dependencies
        for kind, name in (("Role", names.OPERATOR), ("StatefulSet", "cpu"), ("Deployment", names.REST)):
            assert each.urn in engine.one(kind, name).dependencies, (kind, name)


def _is_crds(resource: Any) -> bool:
    return names.API_GROUP in resource.name
