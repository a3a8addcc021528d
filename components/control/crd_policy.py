"""The admission policy that keeps an older release of this program from taking fields away from the CRDs.

All Slurm clusters of a Kubernetes share the CRDs, and each stack applies its own. A field that goes from a schema also
goes from every resource at its next write.
"""

from typing import Any, Final

from components.kubernetes.manifest import Manifest
from contract import names

EDITION: Final = f"{names.API_GROUP}/edition"
"""Annotation of a CRD: a number that grows with each change of it. A CRD without it has edition 0."""
NAME: Final = f"crds.{names.API_GROUP}"
_API: Final = "admissionregistration.k8s.io/v1"
_REFUSAL: Final = (
    "'this is edition ' + string(variables.wanted) + ' of the CRD, and a newer release of the program has brought "
    "edition ' + string(variables.there) + ': run `pulumi up` with a release as new, or see docs/versions.md'"
)


def manifests(crds: list[str]) -> list[Manifest]:
    """Return the policy and its binding. Like the CRDs, they stay when the stack is destroyed.

    Args:
        crds: names of the CRDs.
    """
    rule = {
        "apiGroups": ["apiextensions.k8s.io"],
        "apiVersions": ["v1"],
        "operations": ["UPDATE"],
        "resources": ["customresourcedefinitions"],
        "resourceNames": crds,
    }
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "variables": [
            {"name": "there", "expression": _edition("oldObject")},
            {"name": "wanted", "expression": _edition("object")},
        ],
        "validations": [{"expression": "variables.wanted >= variables.there", "messageExpression": _REFUSAL}],
    }
    binding = {"policyName": NAME, "validationActions": ["Deny"]}
    return [_declared("ValidatingAdmissionPolicy", policy), _declared("ValidatingAdmissionPolicyBinding", binding)]


def _edition(crd: str) -> str:
    annotations = f"{crd}.metadata.annotations"
    return f"has({annotations}) && '{EDITION}' in {annotations} ? int({annotations}['{EDITION}']) : 0"


def _declared(kind: str, spec: dict[str, Any]) -> Manifest:
    labels = {names.LABEL_NAME: "slurm", names.LABEL_COMPONENT: "operator", names.LABEL_MANAGED_BY: names.PROJECT}
    annotations = {"pulumi.com/patchForce": "true", "pulumi.com/patchFieldManager": names.FIELD_MANAGER}
    metadata = {"name": NAME, "labels": labels, "annotations": annotations}
    body = {"apiVersion": _API, "kind": kind, "metadata": metadata, "spec": spec}
    return Manifest(body, held=False, retain=True)
