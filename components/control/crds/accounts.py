"""The schemas of a SlurmCluster's accounts: what the program declares, and what the operator did about it."""

from typing import Final

from components.config.accounts.accounts import RemovalPolicy
from components.control.crds.schema import TIME, Schema, described, section
from contract.accounts import LONGEST_LIST

_VALUES: Final[Schema] = {"type": "object", "additionalProperties": {"type": "string", "maxLength": 4096}}
_KINDS: Final = {
    "qos": "QOS by name.",
    "accounts": "Accounts by name, each with its association.",
    "users": "Associations of users, by account/user.",
}


def _records(description: str) -> Schema:
    # As one value, so that Kubernetes does not note an owner of each field: that would double the object.
    atomic = {"maxProperties": LONGEST_LIST, "x-kubernetes-map-type": "atomic"}
    return {**described("object", description), **atomic, "additionalProperties": _VALUES}


def _names(description: str) -> Schema:
    listed = {"maxItems": 2 * LONGEST_LIST, "x-kubernetes-list-type": "atomic", "items": {"type": "string"}}
    return {**described("array", description), **listed}


def declared() -> Schema:
    """The schema of spec.accounts."""
    removal = {
        "description": "Whether what an earlier spec made goes when the spec names it no more.",
        "type": "string",
        "enum": [policy.value for policy in RemovalPolicy],
        "default": RemovalPolicy.KEEP.value,
    }
    return section(
        "QOS, accounts and users for slurmdbd, with values by sacctmgr's words. Others may be made beside them.",
        {"removal": removal, **{kind: _records(words) for kind, words in _KINDS.items()}},
    )


def status() -> Schema:
    """The schema of status.accounts."""
    return section(
        "What the operator did about spec.accounts.",
        {
            "set": section(
                "Values that it set or found as declared. It takes one back when the spec stops naming it.",
                {kind: _records(words) for kind, words in _KINDS.items()},
            ),
            "made": section(
                "What it made itself, and may remove by policy.",
                {kind: _names(words) for kind, words in _KINDS.items()},
            ),
            "notDeclared": _names("What slurmdbd has beside spec.accounts, made by people with sacctmgr. It stays."),
            "notDeclaredLeftOut": described("integer", "How many of these are not listed here."),
            "others": section(
                "Values in slurmdbd that are not as declared, and records that are not declared.",
                {kind: _records(words) for kind, words in _KINDS.items()},
            ),
            "othersLeftOut": described("integer", "How many records with such values are not listed here."),
            "readAt": {**TIME, "description": "When slurmdbd was read. What stays gets a new time, too."},
        },
    )
