"""The pod that follows an LDAP directory and writes its users into the jail."""

from typing import Any

from components.config import Config
from components.config.addons.ldap import Ldap
from components.config.values.quantities import duration_seconds
from components.kubernetes.component import Part
from components.kubernetes.manifest import SKIP_AWAIT, Manifest, declared, selector
from components.pods import pod_security
from components.pods.slurm_pod import (
    environment,
    jail_variable,
    jail_volume,
    pod_template,
    ready_probe,
    resources,
    run_volume,
    slurm_container,
    slurm_pod_spec,
)
from contract import names, paths, pod_variables
from contract.pod_variables import LdapKey


def _variable(ldap: Ldap) -> dict[str, Any]:
    bind: dict[str, Any] = {} if ldap.bind_dn is None else {LdapKey.BIND: ldap.bind_dn}
    return {
        LdapKey.URI: ldap.uri,
        LdapKey.BASE: ldap.base,
        LdapKey.USER_FILTER: ldap.user_filter,
        LdapKey.GROUP_FILTER: ldap.group_filter,
        LdapKey.OWN_AUTHORITY: ldap.ca_secret is not None,
        LdapKey.SECONDS: duration_seconds(ldap.interval),
        **bind,
    }


def _secrets(ldap: Ldap) -> dict[str, Any] | None:
    """Return one volume with the password and the CA, each from its own Secret; None if there is neither."""
    wanted = [
        (ldap.bind_password_secret, names.LDAP_PASSWORD),
        (ldap.ca_secret, names.TLS_AUTHORITY),
    ]
    sources = [
        {"secret": {"name": secret.name, "items": [{"key": secret.key, "path": file}]}}
        for secret, file in wanted
        if secret is not None
    ]
    return {"name": "secrets", "projected": {"defaultMode": 0o440, "sources": sources}} if sources else None


def _deployment(config: Config) -> Manifest:
    ldap = config.directory
    secrets = _secrets(ldap)
    mount = {"name": "secrets", "mountPath": paths.SECRETS_LDAP, "readOnly": True}
    container = slurm_container(
        config,
        "directory",
        env=environment({pod_variables.LDAP: _variable(ldap), pod_variables.JAIL: jail_variable(config)}),
        readinessProbe=ready_probe("directory"),
        resources=resources(ldap.resources),
        securityContext={
            **pod_security.root_container(pod_security.LDAP_CAPABILITIES),
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
        },
        volumeMounts=[
            {"name": "jail", "mountPath": paths.JAIL_VOLUME},
            {"name": "run", "mountPath": "/run"},
            *([mount] if secrets else []),
        ],
    )
    volumes = [jail_volume(config), run_volume(), *([secrets] if secrets else [])]
    spec = {
        "replicas": 1,
        # Two pods would only wait for each other's lock.
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": selector(config, "directory")},
        "template": pod_template(
            config,
            "directory",
            slurm_pod_spec(config, [container], volumes, securityContext=pod_security.root_pod()),
        ),
    }
    body = declared(
        config,
        "apps/v1",
        "Deployment",
        names.LDAP,
        "directory",
        {"spec": spec},
        # `pulumi up` does not wait for an LDAP server that may be silent.
        annotations=SKIP_AWAIT,
    )
    return Manifest(body)


def manifests(config: Config) -> list[Manifest]:
    """Return the Deployment, if an LDAP directory is configured."""
    return [_deployment(config)] if config.directory.is_on else []


class LdapDirectory(Part, manifests=manifests):
    """The pod that follows an LDAP directory.

    It reads `directory`, `jail`, `images` and `cluster`.
    """

    stored_as = "Directory"
