"""Accounting: slurmdbd, between Slurm and the database."""

import hashlib
from typing import Final

from components.config import Config
from components.kubernetes.component import Part
from components.kubernetes.manifest import Manifest, declared
from components.pods import pod_security
from components.pods.pod_options import with_options
from components.pods.slurm_pod import (
    PARALLEL,
    pod_template,
    ready_probe,
    resources,
    scratch_volumes,
    slurm_container,
    slurm_pod_spec,
    standing_service,
    stateful_set,
)
from components.slurm.conf import slurmdbd_conf
from components.slurm.controller import keys_secret
from components.slurm.database import authority_volume, password_volume
from contract import names, paths

CONFIG_HASH: Final = "pulumi-slurm.dev/slurmdbd-conf"


def _config_map(config: Config) -> Manifest:
    data = {names.SLURMDBD_CONF: slurmdbd_conf.slurmdbd_conf(config)}
    return Manifest(declared(config, "v1", "ConfigMap", names.ACCOUNTING, "accounting", {"data": data}))


def _stateful_set(config: Config) -> Manifest:
    authority = authority_volume(config)
    mount = {"name": "database-authority", "mountPath": paths.SECRETS_DATABASE_AUTHORITY, "readOnly": True}
    container = slurm_container(
        config,
        "accounting",
        ports=[{"name": "slurmdbd", "containerPort": names.SLURMDBD_PORT}],
        # A real query, through slurmdbd to the database and back.
        readinessProbe=ready_probe("accounting", period_seconds=10, failures=2),
        resources=resources(config.accounting.resources),
        securityContext=pod_security.unprivileged_container(),
        volumeMounts=[
            {"name": "slurmdbd-conf", "mountPath": paths.ETC_ACCOUNTING, "readOnly": True},
            {"name": "config", "mountPath": paths.ETC_SLURM, "readOnly": True},
            {"name": "keys", "mountPath": paths.SECRETS_SLURM, "readOnly": True},
            {"name": "password", "mountPath": paths.SECRETS_DATABASE, "readOnly": True},
            {"name": "run", "mountPath": paths.ACCOUNTING_RUN},
            *([mount] if authority else []),
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the container's own, empty at start
        ],
    )
    volumes = [
        {"name": "slurmdbd-conf", "configMap": {"name": names.ACCOUNTING}},
        {"name": "config", "configMap": {"name": names.CONFIG_ACTIVE}},
        {
            "name": "keys",
            "secret": pod_security.secret_files(keys_secret(config), [names.SLURM_KEY, names.JWT_KEY]),
        },
        password_volume(config),
        *([authority] if authority else []),
        *scratch_volumes(),
    ]
    pod = slurm_pod_spec(config, [container], volumes, securityContext=pod_security.CONTROLLER_POD)
    template = pod_template(config, "accounting", pod)
    # slurmdbd reads its file only at its start.
    content = hashlib.sha256(slurmdbd_conf.slurmdbd_conf(config).encode()).hexdigest()
    template["metadata"]["annotations"] = {CONFIG_HASH: content[:16]}
    template = with_options(config, template, config.accounting.pod)
    return stateful_set(
        config, names.ACCOUNTING, "accounting", template, service=names.ACCOUNTING, podManagementPolicy=PARALLEL
    )


def manifests(config: Config) -> list[Manifest]:
    """Return the file, the Service and the StatefulSet of slurmdbd."""
    if not config.accounting.is_on:
        return []
    return [
        _config_map(config),
        standing_service(config, names.ACCOUNTING, "accounting", "slurmdbd", names.SLURMDBD_PORT),
        _stateful_set(config),
    ]


class Accounting(
    Part,
    manifests=manifests,
    outputs=lambda config: {
        "address": f"{names.ACCOUNTING}:{names.SLURMDBD_PORT}" if config.accounting.is_on else None
    },
):
    """slurmdbd in one pod. It keeps no state: slurmctld holds its records back while slurmdbd is away.

    It reads `accounting`, `images`, `credentials` and `cluster`.
    """
