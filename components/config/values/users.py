"""Users: login names, SSH keys, and how an LDAP directory names them."""

import base64
import binascii
import re
from typing import Annotated

from pydantic import AfterValidator

from components.config.values.validation import matching, wrong
from contract import names

_SSH_KEY = re.compile(
    r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)|sk-ssh-ed25519@openssh\.com"
    r"|sk-ecdsa-sha2-nistp256@openssh\.com) ([A-Za-z0-9+/]+={0,2})( [^\n\r]*)?"
)


def _ssh_public_key(value: str) -> str:
    want = "one line of an OpenSSH public key file, such as: ssh-ed25519 AAAA… name"
    match = _SSH_KEY.fullmatch(value.strip())
    if not match:
        raise wrong(want)
    try:
        blob = base64.b64decode(match[2], validate=True)
    except binascii.Error:
        raise wrong(want) from None
    # The blob repeats the key's type (RFC 4253, 6.6), so a cut or mixed-up line shows.
    if blob[4 : 4 + int.from_bytes(blob[:4], "big")] != match[1].encode() or len(blob) < 32:
        raise wrong(want)
    return value.strip()


UserName = Annotated[
    str,
    matching(
        r"(?!(root|slurm|slurmrest|sshd|nobody|daemon|bin|sys)$)" + names.USER_NAME,
        "a login name of an ordinary user: lower-case letters, digits, `_`, `-`, not a system user",
    ),
]
GroupName = Annotated[
    str,
    matching(
        r"(?!root$)[A-Za-z_][A-Za-z0-9_.-]{0,62}",
        "the name of a Unix group of the jail: letters, digits, `_`, `.`, `-`, such as physics",
    ),
]
SshPublicKey = Annotated[str, AfterValidator(_ssh_public_key)]
LdapUri = Annotated[
    str,
    matching(
        r"ldaps?://[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(:[1-9]\d{0,4})?",
        "ldaps://HOST or ldap://HOST, with a port or without; ldap:// is for StartTLS",
    ),
]
DistinguishedName = Annotated[
    str,
    matching(
        r"[A-Za-z][A-Za-z0-9-]*=[^,=\x00-\x1f]+(,\s*[A-Za-z][A-Za-z0-9-]*=[^,=\x00-\x1f]+)*",
        "a distinguished name such as ou=people,dc=example,dc=org",
    ),
]
LdapFilter = Annotated[
    str, matching(r"\([ -~]+\)", "an LDAP filter in parentheses, such as (objectClass=posixAccount)")
]
