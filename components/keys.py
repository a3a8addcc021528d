"""Keys that are generated once and then kept in Pulumi's state, as secrets.

Pulumi's state names the provider by its module and class. So neither name may change.
"""

import base64
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pulumi
import pulumi.dynamic as dynamic
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

from contract import names

_SLURM_KEY_BYTES: Final = 1024
_JWT_KEY_BYTES: Final = 64
_RSA_BITS: Final = 3072
_PASSWORD_BYTES: Final = 24

SLURM: Final = "slurm"
SSH: Final = "ssh"
REVISION: Final = "revision"
DATABASE: Final = "database"


def _random_text(size: int) -> bytes:
    """Return random bytes as text, so that no program on the way stops at a NUL or strips a newline."""
    return base64.b64encode(secrets.token_bytes(size))


def _ssh_pair(key: ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey, name: str) -> dict[str, bytes]:
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return {name: private, f"{name}.pub": public + b"\n"}


def _slurm() -> dict[str, bytes]:
    return {names.SLURM_KEY: _random_text(_SLURM_KEY_BYTES), names.JWT_KEY: _random_text(_JWT_KEY_BYTES)}


def _ssh() -> dict[str, bytes]:
    return {
        **_ssh_pair(ed25519.Ed25519PrivateKey.generate(), "ssh_host_ed25519_key"),
        **_ssh_pair(rsa.generate_private_key(public_exponent=65537, key_size=_RSA_BITS), "ssh_host_rsa_key"),
    }


def _revision() -> dict[str, bytes]:
    return {"key": _random_text(_JWT_KEY_BYTES)}


def _database() -> dict[str, bytes]:
    return {names.DATABASE_PASSWORD: secrets.token_urlsafe(_PASSWORD_BYTES).encode()}


_MAKERS: Final[Mapping[str, Callable[[], dict[str, bytes]]]] = {
    SLURM: _slurm,
    SSH: _ssh,
    REVISION: _revision,
    DATABASE: _database,
}


def generate(purpose: str) -> dict[str, str]:
    """Return new keys, base64-encoded as a Secret's data.

    Args:
        purpose: SLURM, SSH, REVISION or DATABASE.
    """
    return {name: base64.b64encode(content).decode() for name, content in _MAKERS[purpose]().items()}


class _KeysProvider(dynamic.ResourceProvider):
    """Generates keys when they are first needed, or adopts a live cluster's. It never revokes them."""

    serialize_as_secret_always = False  # The pickled provider holds no key.

    def create(self, props: dict[str, Any]) -> dynamic.CreateResult:
        purpose = str(props["purpose"])
        data = props.get("adopted") or generate(purpose)
        return dynamic.CreateResult(id_=f"{purpose}-{secrets.token_hex(4)}", outs={"purpose": purpose, "data": data})

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> dynamic.DiffResult:
        # A refused update leaves keys that no cluster knows.
        return dynamic.DiffResult(changes="adopted" in news and news["adopted"] != olds.get("data"))

    def update(self, _id: str, _olds: dict[str, Any], news: dict[str, Any]) -> dynamic.UpdateResult:
        return dynamic.UpdateResult(outs={"purpose": news["purpose"], "data": news["adopted"]})


class Keys(dynamic.Resource, module="pulumi-slurm", name="Keys"):
    """Generated keys. Their values stand in the stack's state, encrypted.

    Args:
        name: Name of the resource in the stack.
        purpose: SLURM, SSH, REVISION or DATABASE.
        opts: Options of the resource.
        adopted: Keys of a live cluster that become the stack's, base64-encoded.
    """

    data: pulumi.Output[dict[str, str]]

    def __init__(
        self,
        name: str,
        purpose: str,
        opts: pulumi.ResourceOptions | None = None,
        adopted: Mapping[str, str] | None = None,
    ) -> None:
        secret = pulumi.ResourceOptions(additional_secret_outputs=["data"])
        inputs: dict[str, Any] = {"purpose": purpose, "data": None}
        if adopted is not None:
            inputs["adopted"] = pulumi.Output.secret(dict(adopted))
        super().__init__(_KeysProvider(), name, inputs, pulumi.ResourceOptions.merge(opts, secret))


def purposes(existing_slurm: str | None, existing_ssh: str | None, *, database: bool) -> Sequence[str]:
    """Return the names of the keys that the program generates.

    Args:
        existing_slurm: The Secret that has Slurm's keys already.
        existing_ssh: The Secret that has the SSH host keys already.
        database: Whether a database needs a password.
    """
    wanted = [(REVISION, True), (SLURM, existing_slurm is None), (SSH, existing_ssh is None), (DATABASE, database)]
    return [purpose for purpose, is_wanted in wanted if is_wanted]
