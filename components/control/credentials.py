"""Credentials: the keys of Slurm and of the SSH hosts, generated or existing."""

import base64
from collections.abc import Mapping, Sequence

import pulumi

from components import keys
from components.config import Config
from components.kubernetes.component import Component, Payloads
from components.kubernetes.manifest import Manifest, declared
from contract import names


def manifests(config: Config) -> list[Manifest]:
    """Return the Secrets whose keys this program generates. It uses existing Secrets as they are."""
    credentials = config.credentials
    secrets = [
        (names.KEYS, credentials.existing_secret is None, (names.SLURM_KEY, names.JWT_KEY)),
        (names.SSH_HOST_KEYS, credentials.existing_ssh_secret is None, names.SSH_HOST_KEY_FILES),
        (
            names.DATABASE_CREDENTIALS,
            _generates_password(config) or _configured_password(config) is not None,
            (names.DATABASE_PASSWORD,),
        ),
        *((nodes.host_keys, nodes.own_host_keys, names.SSH_HOST_KEY_FILES) for nodes in config.login.nodes_of_sets),
    ]
    return [
        Manifest(declared(config, "v1", "Secret", name, "credentials", {"type": "Opaque"}), payload=files)
        for name, ours, files in secrets
        if ours
    ]


def generated_files(config: Config) -> Mapping[str, tuple[str, ...]]:
    """Return the names of generated keys by their Secret."""
    configured = set() if _generates_password(config) else {names.DATABASE_CREDENTIALS}
    return {manifest.name: manifest.payload for manifest in manifests(config) if manifest.name not in configured}


def _generates_password(config: Config) -> bool:
    """Return whether the program generates the database's password."""
    return config.accounting.has_own_database and config.credentials.existing_database_secret is None


def _configured_password(config: Config) -> bytes | None:
    """Return the password inside accounting.external.connection."""
    return config.accounting.external.parts.password if config.accounting.external else None


def _configured_payloads(config: Config) -> dict[str, pulumi.Output[dict[str, str]]]:
    password = _configured_password(config)
    if password is None:
        return {}
    data = {names.DATABASE_PASSWORD: base64.b64encode(password).decode()}
    return {names.DATABASE_CREDENTIALS: pulumi.Output.secret(data)}


class GeneratedKeys(Component):
    """The keys, generated once and kept as secrets of the stack.

    They are not in the Secrets' component, since the ledger needs the contents and is written before the Secrets.

    Args:
        name: Name of the resource in the stack.
        config: The configuration: `credentials`, and the login sets with host keys of their own.
        opts: Options of the resource.
        adopted: Secret → keys of a live cluster, which become the stack's own.
    """

    def __init__(
        self,
        name: str,
        config: Config,
        opts: pulumi.ResourceOptions | None = None,
        adopted: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        super().__init__(name, opts)
        credentials = config.credentials
        wanted = keys.purposes(
            credentials.existing_secret, credentials.existing_ssh_secret, database=_generates_password(config)
        )
        by_purpose = {
            keys.SLURM: names.KEYS,
            keys.SSH: names.SSH_HOST_KEYS,
            keys.DATABASE: names.DATABASE_CREDENTIALS,
        }
        made = {
            purpose: keys.Keys(
                f"{purpose}-keys",
                purpose,
                pulumi.ResourceOptions(parent=self),
                (adopted or {}).get(by_purpose.get(purpose, "")),
            )
            for purpose in wanted
        }
        self.generated: Payloads = {
            **{secret: made[purpose].data for purpose, secret in by_purpose.items() if purpose in made},
            **self._host_keys_of_sets(config, adopted or {}),
        }
        self.payloads: Payloads = {**self.generated, **_configured_payloads(config)}
        self.revision = made[keys.REVISION]
        self.revision_key: pulumi.Output[str] = self.revision.data.apply(lambda data: data["key"])
        self.register_outputs({})

    def _host_keys_of_sets(self, config: Config, adopted: Mapping[str, Mapping[str, str]]) -> Payloads:
        """Return the SSH host keys of login sets that have keys of their own."""
        return {
            nodes.host_keys: keys.Keys(
                f"login-{nodes.name}-ssh-keys",
                keys.SSH,
                pulumi.ResourceOptions(parent=self),
                adopted.get(nodes.host_keys),
            ).data
            for nodes in config.login.nodes_of_sets
            if nodes.own_host_keys
        }


class Credentials(Component):
    """The Secrets that pods mount.

    Args:
        name: Name of the resource in the stack.
        config: The configuration: `credentials` and `cluster`.
        payloads: Contents of the Secrets.
        depends_on: Resources that come first, such as the ledger.
        opts: Options of the resource.
    """

    def __init__(
        self,
        name: str,
        config: Config,
        payloads: Payloads,
        depends_on: Sequence[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(name, opts)
        self.declare(manifests(config), depends_on, payloads)
        self.keys_secret = config.credentials.existing_secret or names.KEYS
        self.ssh_secret = config.credentials.existing_ssh_secret or names.SSH_HOST_KEYS
        self.register_outputs({"keysSecret": self.keys_secret, "sshSecret": self.ssh_secret})
