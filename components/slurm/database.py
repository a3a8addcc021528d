"""The database of accounting: MariaDB on a volume."""

from typing import Any, Final

from components.claim_guard import class_source
from components.config import Config
from components.config.values.quantities import memory_bytes
from components.kubernetes.component import Claims, Part
from components.kubernetes.manifest import SKIP_AWAIT, Manifest, declared
from components.pods import pod_security
from components.pods.slurm_pod import (
    PARALLEL,
    pod_template,
    resources,
    scratch_volumes,
    slurm_pod_spec,
    standing_service,
    stateful_set,
)
from components.slurm.conf import slurmdbd_conf
from contract import names, paths, pod_variables

_GRACE_SECONDS: Final = 120
"""InnoDB writes its changed pages when it ends. After a kill it recovers from its log at the next start."""
_MIB: Final = 1024**2
_SERVER_BYTES: Final = 128 * _MIB
"""Memory of mariadbd besides its buffer pool. It held 79 MiB with slurmdbd's tables and a pool of 96 MiB."""
_SMALLEST_POOL_BYTES: Final = 32 * _MIB

_QUERY: Final = "SELECT COUNT(*) FROM mysql.innodb_table_stats"
"""The probe reads a table of InnoDB, so a server that only listens does not pass."""


_TLS_OPTIONS: Final = (
    f"--ssl-ca={paths.SECRETS_DATABASE_TLS}/{names.TLS_AUTHORITY}",
    f"--ssl-cert={paths.SECRETS_DATABASE_TLS}/{names.TLS_CERTIFICATE}",
    f"--ssl-key={paths.SECRETS_DATABASE_TLS}/{names.TLS_KEY}",
    # The server refuses connections without TLS. The pod's own socket counts as safe.
    "--require-secure-transport=ON",
)
_TLS_MOUNT: Final = {"name": "tls", "mountPath": paths.SECRETS_DATABASE_TLS, "readOnly": True}


def _tls_volume() -> dict[str, Any]:
    keys = [names.TLS_CERTIFICATE, names.TLS_KEY, names.TLS_AUTHORITY]
    return {"name": "tls", "secret": pod_security.secret_files(names.DATABASE_TLS, keys)}


def authority_volume(config: Config) -> dict[str, Any] | None:
    """Return a volume for clients, with the CA that signed the database's certificate; None where the CA is unknown."""
    external = config.accounting.external
    if external is not None and external.ca_secret is not None:
        secret, key = external.ca_secret.name, external.ca_secret.key
    elif config.database_tls:
        secret, key = names.DATABASE_TLS, names.TLS_AUTHORITY
    else:
        return None
    source = pod_security.secret_files(secret, [key])
    source["items"] = [{"key": key, "path": names.TLS_AUTHORITY}]
    return {"name": "database-authority", "secret": source}


def buffer_pool_bytes(memory: int) -> int:
    """Return the size of InnoDB's cache: three quarters of the pod's memory without the server's own part.

    Args:
        memory: Memory limit of the pod in bytes.
    """
    share = (memory - _SERVER_BYTES) * 3 // 4
    return max(_SMALLEST_POOL_BYTES, share // _MIB * _MIB)


def password_volume(config: Config) -> dict[str, Any]:
    """Return a volume with the file `password`, from the Secret that has it."""
    existing = config.accounting.password_secret
    if existing is not None:
        secret, key = existing.name, existing.key
    else:
        own = config.credentials.existing_database_secret if config.accounting.has_own_database else None
        secret, key = own or names.DATABASE_CREDENTIALS, names.DATABASE_PASSWORD
    source = pod_security.secret_files(secret, [key])
    source["items"] = [{"key": key, "path": names.DATABASE_PASSWORD}]
    return {"name": "password", "secret": source}


def _claim(config: Config) -> Manifest:
    storage = config.accounting.storage
    spec: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage.size}}}
    if storage.class_name is not None:
        spec["storageClassName"] = storage.class_name
    body = declared(
        config, "v1", "PersistentVolumeClaim", names.DATABASE, "database", {"spec": spec}, annotations=SKIP_AWAIT
    )
    return Manifest(body, retain=storage.retain, protect=storage.protect)


def _probe(period: int, failures: int) -> dict[str, Any]:
    socket = f"{paths.DATABASE_RUN}/mariadb.sock"
    client = ["mariadb", "--no-defaults", f"--socket={socket}", f"--user={names.DATABASE_OS_USER}"]
    return {
        "exec": {"command": [*client, "--connect-timeout=5", f"--execute={_QUERY}"]},
        "periodSeconds": period,
        "timeoutSeconds": 10,
        "failureThreshold": failures,
    }


def _container(config: Config) -> dict[str, Any]:
    database = slurmdbd_conf.connection(config)
    pool = buffer_pool_bytes(memory_bytes(config.accounting.database_resources.memory))
    return {
        "name": "database",
        # Parsing refuses mode mariadb without an image.
        "image": config.images.reference(config.images.database or ""),
        "imagePullPolicy": str(config.images.pull_policy),
        "args": [f"--innodb-buffer-pool-size={pool}", *(_TLS_OPTIONS if config.database_tls else [])],
        "env": [
            {"name": pod_variables.DATABASE_NAME, "value": database.database},
            {"name": pod_variables.DATABASE_USER, "value": database.user},
        ],
        "ports": [{"name": "mariadb", "containerPort": names.DATABASE_PORT}],
        # A start after a crash replays the log, which may take minutes.
        "startupProbe": _probe(2, 450),
        "readinessProbe": _probe(10, 2),
        "livenessProbe": _probe(30, 5),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "resources": resources(config.accounting.database_resources),
        "securityContext": pod_security.unprivileged_container(),
        "volumeMounts": [
            {"name": "data", "mountPath": paths.DATABASE_VOLUME},
            {"name": "password", "mountPath": paths.SECRETS_DATABASE, "readOnly": True},
            {"name": "run", "mountPath": paths.DATABASE_RUN},
            *([_TLS_MOUNT] if config.database_tls else []),
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the container's own, empty at start
        ],
    }


def _stateful_set(config: Config) -> Manifest:
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": names.DATABASE}},
        password_volume(config),
        *scratch_volumes(),
        *([_tls_volume()] if config.database_tls else []),
    ]
    pod = slurm_pod_spec(
        config,
        [_container(config)],
        volumes,
        securityContext=pod_security.DATABASE_POD,
        terminationGracePeriodSeconds=_GRACE_SECONDS,
    )
    template = pod_template(config, "database", pod)
    return stateful_set(
        config, names.DATABASE, "database", template, service=names.DATABASE, podManagementPolicy=PARALLEL
    )


def manifests(config: Config) -> list[Manifest]:
    """Return the Service, the volume and the StatefulSet of the database."""
    if not config.accounting.has_own_database:
        return []
    return [
        standing_service(config, names.DATABASE, "database", "mariadb", names.DATABASE_PORT),
        _claim(config),
        _stateful_set(config),
    ]


def _claims(config: Config) -> Claims:
    if not config.accounting.has_own_database:
        return []
    return [("database-claim-guard", "accounting.storage", class_source(config.accounting.storage.class_name))]


class Database(
    Part,
    manifests=manifests,
    outputs=lambda config: {
        "address": f"{names.DATABASE}:{names.DATABASE_PORT}" if config.accounting.has_own_database else None
    },
    claims=_claims,
):
    """MariaDB in one pod, on a volume that holds every record of accounting.

    It reads `accounting`, `certificates`, `images`, `credentials` and `cluster`.
    """
