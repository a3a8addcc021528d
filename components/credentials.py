"""Credentials: the keys of Slurm and of the SSH hosts, generated or existing."""

import base64
from collections.abc import Sequence

import pulumi

from components import keys, names
from components.component import Component, Payloads
from components.config import Config
from components.manifest import Manifest, declared


def manifests(config: Config) -> list[Manifest]:
    """The Secrets whose keys are generated; existing ones are used as they are."""
    credentials = config.credentials
    secrets = [
        (names.KEYS, credentials.existing_secret is None, (names.SLURM_KEY, names.JWT_KEY)),
        (names.SSH_HOST_KEYS, credentials.existing_ssh_secret is None, names.SSH_HOST_KEY_FILES),
        (
            names.DATABASE_CREDENTIALS,
            _generates_password(config) or _configured_password(config) is not None,
            (names.DATABASE_PASSWORD,),
        ),
    ]
    return [
        Manifest(declared(config, "v1", "Secret", name, "credentials", {"type": "Opaque"}), payload=files)
        for name, ours, files in secrets
        if ours
    ]


def _generates_password(config: Config) -> bool:
    """Whether the database gets a password that nobody else knows."""
    return config.accounting.has_own_database and config.credentials.existing_database_secret is None


def _configured_password(config: Config) -> bytes | None:
    """The password inside accounting.external.connection."""
    return config.accounting.external.parts.password if config.accounting.external else None


def _configured_payloads(config: Config) -> dict[str, pulumi.Output[dict[str, str]]]:
    password = _configured_password(config)
    if password is None:
        return {}
    data = {names.DATABASE_PASSWORD: base64.b64encode(password).decode()}
    return {names.DATABASE_CREDENTIALS: pulumi.Output.secret(data)}


class GeneratedKeys(Component):
    """The keys themselves, made once and kept as secrets of the stack.

    They are apart from their Secrets because the ledger, which is written before those, needs the contents.

    Args:
        name: Name of the resource in the stack.
        config: The configuration: `credentials`.
        opts: Options of the resource.
    """

    def __init__(self, name: str, config: Config, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, opts)
        credentials = config.credentials
        wanted = keys.purposes(
            credentials.existing_secret, credentials.existing_ssh_secret, database=_generates_password(config)
        )
        made = {
            purpose: keys.Keys(f"{purpose}-keys", purpose, pulumi.ResourceOptions(parent=self)) for purpose in wanted
        }
        by_secret = {
            names.KEYS: keys.SLURM,
            names.SSH_HOST_KEYS: keys.SSH,
            names.DATABASE_CREDENTIALS: keys.DATABASE,
        }
        self.payloads: Payloads = {
            secret: made[purpose].data for secret, purpose in by_secret.items() if purpose in made
        } | _configured_payloads(config)
        self.revision_key: pulumi.Output[str] = made[keys.REVISION].data.apply(lambda data: data["key"])
        self.register_outputs({})


class Credentials(Component):
    """The Secrets that pods mount.

    Args:
        name: Name of the resource in the stack.
        config: The configuration: `credentials` and `cluster`.
        payloads: Contents of the Secrets.
        depends_on: What is there before, such as the ledger.
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
