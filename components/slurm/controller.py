"""The controller: slurmctld, its Service and its state volume."""

from typing import Any

from components.claim_guard import class_source
from components.config import Config
from components.kubernetes.component import Claims, Part
from components.kubernetes.manifest import SKIP_AWAIT, Manifest, declared
from components.pods import pod_security
from components.pods.pod_options import with_options
from components.pods.slurm_pod import (
    environment,
    headless_service,
    pod_template,
    resources,
    scratch_volumes,
    short_names,
    slurm_container,
    slurm_pod_spec,
    stateful_set,
)
from components.slurm import site_scripts
from contract import names, paths, pod_variables
from contract.pod_variables import AccountingKey

_GRACE_SECONDS = 120
"""slurmctld writes its state when it ends. After a kill it lacks what happened last."""

_READY = {
    # slurmctld itself answers: it takes messages, has read its state, is not reconfiguring and has room for more.
    "httpGet": {"path": "/readyz", "port": "slurmctld"},
    "periodSeconds": 5,
    "timeoutSeconds": 5,
    "failureThreshold": 3,
}
# No liveness probe (/livez): a slurmctld that ends before it saved its state forgets jobs, and Slurm then ends them.


def keys_secret(config: Config) -> str:
    """Return the Secret with slurm.key and jwt.key."""
    return config.credentials.existing_secret or names.KEYS


def _accounting(config: Config) -> dict[str, Any]:
    return {AccountingKey.HOST: names.ACCOUNTING, AccountingKey.PORT: names.SLURMDBD_PORT}


def _state_claim(config: Config) -> Manifest:
    storage = config.controller.state_storage
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage.size}}}
    if storage.class_name is not None:
        spec["storageClassName"] = storage.class_name
    body = declared(
        config,
        "v1",
        "PersistentVolumeClaim",
        names.CONTROLLER_STATE,
        "controller",
        {"spec": spec},
        annotations=SKIP_AWAIT,
    )
    return Manifest(body, retain=storage.retain, protect=storage.protect)


def _stateful_set(config: Config) -> Manifest:
    container = slurm_container(
        config,
        "controller",
        ports=[{"name": "slurmctld", "containerPort": names.SLURMCTLD_PORT}],
        # With accounting, the entry first starts slurmctld without it, until slurmdbd was there once.
        **({"env": environment({pod_variables.ACCOUNTING: _accounting(config)})} if config.accounting.is_on else {}),
        readinessProbe=_READY,
        resources=resources(config.controller.resources),
        securityContext=pod_security.unprivileged_container(),
        volumeMounts=[
            {"name": "config", "mountPath": paths.ETC_SLURM, "readOnly": True},
            {"name": "keys", "mountPath": paths.SECRETS_SLURM, "readOnly": True},
            {"name": "state", "mountPath": paths.STATE_DIR},
            {"name": "run", "mountPath": paths.CONTROLLER_RUN},
            {"name": "scripts", "mountPath": paths.ETC_SCRIPTS, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the container's own, empty at start
        ],
    )
    volumes = [
        {"name": "config", "configMap": {"name": names.CONFIG_ACTIVE}},
        {
            "name": "keys",
            "secret": pod_security.secret_files(keys_secret(config), [names.SLURM_KEY, names.JWT_KEY]),
        },
        {"name": "state", "persistentVolumeClaim": {"claimName": names.CONTROLLER_STATE}},
        site_scripts.volume("scripts", names.CONTROLLER_SCRIPTS),
        *scratch_volumes(),
    ]
    logins = [names.LOGINS, *([names.LOGIN_SETS] if config.login.sets else [])]
    pod = slurm_pod_spec(
        config,
        [container],
        volumes,
        securityContext=pod_security.CONTROLLER_POD,
        terminationGracePeriodSeconds=_GRACE_SECONDS,
        # slurmctld speaks to nodes, and to srun on login nodes, by their short names.
        dnsConfig=short_names(config, names.WORKERS, *logins),
    )
    template = with_options(config, pod_template(config, "controller", pod), config.controller.pod)
    return stateful_set(config, names.CONTROLLER, "controller", template, service=names.CONTROLLER)


def manifests(config: Config) -> list[Manifest]:
    """Return the Service, the state volume and the StatefulSet of slurmctld."""
    return [
        headless_service(config, names.CONTROLLER, "controller", "slurmctld", names.SLURMCTLD_PORT),
        _state_claim(config),
        _stateful_set(config),
    ]


def _claims(config: Config) -> Claims:
    source = class_source(config.controller.state_storage.class_name)
    return [("controller-claim-guard", "controller.stateStorage", source)]


class Controller(
    Part,
    manifests=manifests,
    outputs=lambda _: {"address": f"{names.CONTROLLER}:{names.SLURMCTLD_PORT}"},
    claims=_claims,
):
    """slurmctld in one pod, with a volume for the job queue.

    It reads `controller`, `images`, `credentials` and `cluster`.
    """
