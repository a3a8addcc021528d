"""The CRD of SlurmClusters."""

from typing import Any, Final

from components.config.login import AdminLevel
from components.control.crds import accounts, definition, hangs, job_counts, long_checks, outages
from components.control.crds.schema import TIME, Schema, checked, described, section, text
from components.slurm import config_dry_run
from contract import names

_LABEL: Final = ("[a-z0-9]([-a-z0-9]*[a-z0-9])?", 63)
_OLD: Final = "Not written any more"


def _url(description: str, address: str, default: str) -> Schema:
    fits = checked(
        r"self.matches('^https?://[^/?#\\s]+$')",
        "must be http:// or https:// with a host and a port, without a path",
    )
    url = {"description": address, **text(512), "default": default, "x-kubernetes-validations": [fits]}
    return {**section(description, {"url": url}), "default": {}}


def _object(description: str, name: str) -> Schema:
    """The name of an object of the cluster, which never changes."""
    return definition.label(description, *_LABEL, definition.IMMUTABLE, default=name)


def _spec() -> Schema:
    appointed = "People who administer Slurm, by their AdminLevel in slurmdbd; others may be appointed beside them."
    two_maps = checked("self.wantedConfig != self.activeConfig", "wantedConfig and activeConfig must be two ConfigMaps")
    return section(
        "What the operator watches and by which names it finds it.",
        {
            "revision": {
                "description": "Revision of the declared objects; equals the ledger's once every one of them is "
                "written.",
                **text(128),
                "minLength": 1,
            },
            "rest": _url(
                "Where slurmrestd answers.",
                "Base URL of slurmrestd, without a path.",
                f"http://{names.REST}:{names.SLURMRESTD_PORT}",
            ),
            "rehearsal": _url(
                "Where a slurmctld with nothing to lose tries configurations.",
                "Base URL, without a path.",
                config_dry_run.url(),
            ),
            "wantedConfig": _object("ConfigMap with the declared Slurm configuration files.", names.CONFIG_WANTED),
            "activeConfig": _object(
                "ConfigMap that slurmctld mounts; written by the operator alone.", names.CONFIG_ACTIVE
            ),
            "controller": _object("StatefulSet of slurmctld.", names.CONTROLLER),
            "restDeployment": _object("Deployment of slurmrestd.", names.REST),
            "login": _object("StatefulSet of the login nodes.", names.LOGIN),
            "loginSets": {
                "description": "StatefulSets of further sets of login nodes.",
                "type": "array",
                "items": text(63),
            },
            "accounting": definition.label("StatefulSet of slurmdbd; left out, nothing is recorded.", *_LABEL),
            "accounts": accounts.declared(),
            "administrators": {
                "description": appointed,
                "type": "object",
                "maxProperties": 1000,
                "additionalProperties": {"type": "string", "enum": [level.value for level in AdminLevel]},
            },
            "longChecks": long_checks.declared(),
            "hangs": hangs.declared(),
        },
        ["revision"],
        [two_maps],
    )


def _configuration() -> Schema:
    return section(
        "What slurmctld runs with.",
        {
            "running": described("string", "Mark of the configuration that slurmctld runs with"),
            # Older operators write these: one definition serves all clusters, also those not yet updated.
            "hash": described("string", _OLD),
            "changedAt": {**TIME, "description": _OLD},
            "appliedHash": described("string", _OLD),
            "closed": {
                "description": "Partitions that take no new jobs, since they go once they are empty.",
                "type": "array",
                "items": {"type": "string"},
            },
        },
    )


def _status() -> Schema:
    nodes = {
        "wanted": described("integer", "Sum of the node sets' replicas"),
        "ready": described("integer", "Registered and usable now"),
        **definition.COUNTED,
    }
    latest = "The last revision whose ledger was complete; conditions of an older one are of no use."
    appointed = (
        "People to whom the operator gave an AdminLevel. It takes the level back when the spec stops naming them."
    )
    return section(
        definition.STATUS,
        {
            "observedGeneration": definition.OBSERVED_GENERATION,
            "revision": described("string", latest),
            "operatorImage": described("string", "Image of the operator that wrote this status."),
            "message": described("string", "The most important condition in one sentence."),
            "nodes": section("Nodes of all node sets, as Slurm counts them.", nodes),
            "accounts": accounts.status(),
            "administrators": {**described("object", appointed), "additionalProperties": {"type": "string"}},
            "configuration": _configuration(),
            "jobs": job_counts.job_counts(),
            "longChecks": long_checks.told(),
            "outages": outages.outages(),
            "hangs": hangs.told(),
            "conditions": definition.conditions(
                "Available (jobs can run now), Progressing (something still moves), Degraded (what is wrong), "
                "DrainedByPeople (what people took out of service), Healing (declared objects are held); Ready, "
                "Reconciling and Stalled for tools that read kstatus."
            ),
        },
    )


def crd() -> dict[str, Any]:
    """The CRD of SlurmClusters."""
    schema = definition.resource(
        "One Slurm cluster of this namespace. Pulumi writes it after every object that it stands for, so its revision "
        "says which declaration is complete; the operator answers in status.",
        _spec(),
        _status(),
    )
    nodes = ".status.nodes"
    return definition.definition(
        "SlurmCluster",
        schema,
        [
            definition.column("Ready", "integer", f"{nodes}.ready", "Nodes that take jobs now"),
            definition.column("Wanted", "integer", f"{nodes}.wanted", "Nodes that the node sets ask for"),
            *definition.count_columns(nodes),
        ],
        short_names=["slurm"],
    )
