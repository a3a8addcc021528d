"""The ledger: every declared object, so that the operator can restore what was changed or deleted.

It is written before the objects, and the SlurmCluster resource after them, with the same revision. The operator
restores objects only while the two are equal. So it never works against an update that is under way or died.

The Secret slurm-ledger holds `revision` and `ledger.json.gz`, gzipped JSON: {"format": 1, "objects": [<object>, …]}.
Objects are sorted by kind and name. The data of a Secret is replaced by {"<key>": "hmac-sha256:<hex>"}. The Secret
slurm-ledger-payloads holds those data under "<Secret's name>.<key>".
"""

import base64
import gzip
import hashlib
import hmac
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pulumi

from components.config import Config
from components.kubernetes.component import Component, Payloads
from components.kubernetes.manifest import Manifest, declared
from contract import names

_LARGEST_BYTES: Final = 900 * 1024
"""Kubernetes takes 1 MiB in a Secret; a ledger of 30 node sets has about 5 KiB."""
_FORMAT: Final = 1
_REVISION_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class Ledger:
    """Data of the two Secrets, base64-encoded, and the revision in clear."""

    revision: str
    data: Mapping[str, str]
    payload_data: Mapping[str, str]


def _keyed(key: bytes, content: bytes) -> str:
    """Return a keyed hash. Without the key nobody learns anything about the content, however short it is."""
    return hmac.new(key, content, hashlib.sha256).hexdigest()


def _entry(manifest: Manifest, payloads: Mapping[str, Mapping[str, str]], key: bytes) -> dict[str, Any]:
    if not manifest.payload:
        return dict(manifest.body)
    payload = payloads[manifest.name]
    hashes = {name: f"hmac-sha256:{_keyed(key, payload[name].encode())}" for name in sorted(manifest.payload)}
    return {**manifest.body, "data": hashes}


def held(manifests: Iterable[Manifest]) -> list[Manifest]:
    """Return the manifests that the ledger holds, in its order."""
    return sorted(
        (manifest for manifest in manifests if manifest.held), key=lambda manifest: (manifest.kind, manifest.name)
    )


def ledger(manifests: Iterable[Manifest], payloads: Mapping[str, Mapping[str, str]], key: str) -> Ledger:
    """Return the ledger of these objects.

    Args:
        manifests: All declared objects. The ledger leaves out those that are not held.
        payloads: Secret name → its data, base64-encoded.
        key: Key of the hashes, so that neither hashes nor revision reveal a secret.

    Raises:
        RunError: One of the two Secrets is larger than Kubernetes takes.
    """
    ours = held(manifests)
    secret = key.encode()
    document = {"format": _FORMAT, "objects": [_entry(manifest, payloads, secret) for manifest in ours]}
    text = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    # Without a time stamp, so that equal objects make equal bytes.
    packed = gzip.compress(text, mtime=0)
    if len(packed) > _LARGEST_BYTES:
        raise pulumi.RunError(
            f"pulumi-slurm:nodeSets: got {len(ours)} objects, {len(packed)} bytes in the ledger; "
            f"want at most {_LARGEST_BYTES}: use fewer node sets, with more nodes each"
        )
    contents = {
        f"{manifest.name}.{name}": payloads[manifest.name][name] for manifest in ours for name in manifest.payload
    }
    sizes = {name: len(base64.b64decode(content)) for name, content in contents.items()}
    if sum(sizes.values()) > _LARGEST_BYTES:
        largest = max(sizes, key=lambda name: sizes[name])
        raise pulumi.RunError(
            f"the ledger's copies of Secrets: got {sum(sizes.values())} bytes; want at most {_LARGEST_BYTES}: "
            f"shorten the largest, {largest} with {sizes[largest]} bytes"
        )
    revision = _keyed(secret, text)[:_REVISION_DIGITS]
    return Ledger(
        revision=revision,
        data={
            names.LEDGER_DATA: base64.b64encode(packed).decode(),
            names.LEDGER_REVISION: base64.b64encode(revision.encode()).decode(),
        },
        payload_data=contents,
    )


def is_written_with(key: str, data: Mapping[str, str]) -> bool:
    """Return whether a ledger's revision was made with this key.

    Args:
        key: Key of the hashes.
        data: Data of the Secret, base64-encoded.
    """
    try:
        text = gzip.decompress(base64.b64decode(data[names.LEDGER_DATA]))
        revision = base64.b64decode(data[names.LEDGER_REVISION])
    except (KeyError, ValueError, OSError, EOFError, zlib.error):
        return False
    return hmac.compare_digest(_keyed(key.encode(), text)[:_REVISION_DIGITS].encode(), revision)


def manifests(config: Config, stack: str = "") -> list[Manifest]:
    """Return the two Secrets of the ledger, without their data; `stack` names their writer for people."""
    annotations = {names.ANNOTATION_STACK: stack} if stack else {}
    return [
        Manifest(
            declared(config, "v1", "Secret", name, "ledger", {"type": "Opaque"}, annotations=annotations),
            payload=("from-contents",),
            held=False,
        )
        for name in (names.LEDGER, names.LEDGER_PAYLOADS)
    ]


class LedgerSecrets(Component):
    """The ledger in Kubernetes.

    Args:
        name: Name of the resource in the stack.
        config: The configuration: `cluster`.
        objects: All declared objects.
        payloads: Contents of the Secrets among them.
        key: Key of the hashes.
        depends_on: Resources that come first, such as the namespace.
        opts: Options of the resource.
    """

    def __init__(
        self,
        name: str,
        config: Config,
        objects: Sequence[Manifest],
        payloads: Payloads,
        key: pulumi.Output[str],
        depends_on: Sequence[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(name, opts)
        made = pulumi.Output.all(payloads=pulumi.Output.all(**payloads), key=key).apply(
            lambda known: ledger(objects, known["payloads"], known["key"])
        )
        contents = {
            names.LEDGER: made.apply(lambda known: dict(known.data)),
            names.LEDGER_PAYLOADS: made.apply(lambda known: dict(known.payload_data)),
        }
        stack = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
        self.declare(manifests(config, stack), depends_on, contents)
        # It is computed from keys, so Pulumi marks it as a secret. As a keyed hash it reveals nothing.
        self.revision: pulumi.Output[str] = pulumi.Output.unsecret(made.apply(lambda known: known.revision))
        self.register_outputs({"revision": self.revision})
