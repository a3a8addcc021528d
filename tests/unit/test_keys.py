"""Keys are made once, well, and stay."""

from __future__ import annotations

import base64
from pathlib import Path

import pulumi.dynamic as dynamic
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

from components import keys
from components.keys import _KeysProvider
from contract import names


def test_each_secret_gets_the_files_that_pods_mount() -> None:
    assert set(keys.generate(keys.SLURM)) == {names.SLURM_KEY, names.JWT_KEY}
    assert set(keys.generate(keys.SSH)) == set(names.SSH_HOST_KEY_FILES)


def test_slurms_keys_are_long_and_plain_text() -> None:
    made = {name: base64.b64decode(value) for name, value in keys.generate(keys.SLURM).items()}
    assert len(base64.b64decode(made[names.SLURM_KEY], validate=True)) >= 1024
    assert len(base64.b64decode(made[names.JWT_KEY], validate=True)) >= 32
    assert keys.generate(keys.SLURM) != keys.generate(keys.SLURM)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("ssh_host_ed25519_key", ed25519.Ed25519PrivateKey), ("ssh_host_rsa_key", rsa.RSAPrivateKey)],
)
def test_host_keys_are_pairs_in_opensshs_format(name: str, kind: type) -> None:
    made = {file: base64.b64decode(value) for file, value in keys.generate(keys.SSH).items()}
    private = serialization.load_ssh_private_key(made[name], password=None)
    assert isinstance(private, kind)
    public = private.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    assert made[f"{name}.pub"] == public + b"\n"


def test_keys_are_never_made_again_or_taken_back() -> None:
    provider = _KeysProvider()
    made = provider.create({"purpose": keys.SLURM})
    assert made.outs is not None
    diff = provider.diff(made.id, made.outs, {"purpose": keys.SLURM, "data": None, "more": 1})
    assert diff.changes is False
    assert type(provider).delete is dynamic.ResourceProvider.delete
    read = provider.read(made.id, made.outs)
    assert (read.id, read.outs) == (made.id, made.outs)


def test_the_state_refers_to_the_provider_and_does_not_hold_its_code() -> None:
    """A copy of the code in the state would change with every edit, and every edit would plan an update."""
    pickled = base64.b64decode(dynamic.dynamic.serialize_provider(_KeysProvider()))
    assert b"components.keys" in pickled
    assert len(pickled) < 200


def test_the_modules_name_is_the_one_in_stored_states() -> None:
    assert Path(keys.__file__).parts[-2:] == ("components", "keys.py")
    assert _KeysProvider.__qualname__ == "_KeysProvider"
