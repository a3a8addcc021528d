"""Credentials: the keys of Slurm and of the SSH hosts, generated or existing."""

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
        (names.KEYS, credentials.existing_secret, (names.SLURM_KEY, names.JWT_KEY)),
        (names.SSH_HOST_KEYS, credentials.existing_ssh_secret, names.SSH_HOST_KEY_FILES),
    ]
    return [
        Manifest(declared(config, "v1", "Secret", name, "credentials", {"type": "Opaque"}), payload=files)
        for name, existing, files in secrets
        if existing is None
    ]


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
        made = {
            purpose: keys.Keys(f"{purpose}-keys", purpose, pulumi.ResourceOptions(parent=self))
            for purpose in keys.purposes(credentials.existing_secret, credentials.existing_ssh_secret)
        }
        by_secret = {names.KEYS: keys.SLURM, names.SSH_HOST_KEYS: keys.SSH}
        self.payloads: Payloads = {
            secret: made[purpose].data for secret, purpose in by_secret.items() if purpose in made
        }
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
