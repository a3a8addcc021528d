"""Address of a database server: one text, or its parts."""

import re
from dataclasses import dataclass, field
from typing import Annotated, Final
from urllib.parse import unquote_to_bytes, urlsplit

from pydantic import AfterValidator, SecretStr

from components.config.values.validation import wrong

DEFAULT_PORT: Final = 3306
DEFAULT_USER: Final = "slurm"
DEFAULT_DATABASE: Final = "slurm_acct_db"
"""Slurm's own default (slurmdbd.conf(5), StorageLoc)."""

_WANT = "mysql://user:password@host:port/database, with special characters percent-encoded"
_NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
# Texts that need no quoting in slurmdbd.conf. MariaDB's limit of user names is 128.
_USER = re.compile(r"[^\s\"'#\\\x00-\x1f\x7f]{1,128}")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.:-]{0,251}[A-Za-z0-9])?")
_EDGES = (b" ", b"\t", b"\n", b"\v", b"\f", b"\r")


@dataclass(frozen=True, slots=True)
class Connection:
    """Address of a database, and the user to connect as.

    Args:
        host: Host name or address.
        port: TCP port.
        user: Name of the database user.
        database: Name of the database.
        password: Its bytes, where the configuration itself holds it.
    """

    host: str
    port: int
    user: str
    database: str
    password: bytes | None = field(default=None, repr=False)


def password_problem(password: bytes) -> str | None:
    """Return why slurmdbd could never use this password; None when it can.

    slurmdbd gets the password from StoragePassScript, or quoted in slurmdbd.conf. Slurm strips the script's answer at
    both ends. In slurmdbd.conf no quote can stand inside quotes, and a line ends at a newline.
    """
    if not password:
        return "a password: slurmdbd takes an empty one for none"
    if b"\0" in password:
        return "a password without NUL, at which Slurm takes it to end"
    if password.startswith(_EDGES) or password.endswith(_EDGES):
        if any(character in password for character in (b'"', b"\n", b"\r")):
            return "a password that begins and ends with no space, or else holds no double quote and no newline"
        if len(password) > 1024:
            return "a password that begins and ends with no space, or else has at most 1024 bytes"
    return None


def parse_connection(text: str) -> Connection:
    """The parts of mysql://user:password@host:port/database.

    Raises:
        PydanticCustomError: It is no such text, or its password can't be used.
    """
    try:
        parts = urlsplit(text)
        port = parts.port or DEFAULT_PORT
    except ValueError:
        raise wrong(_WANT) from None
    user = unquote_to_bytes(parts.username or "").decode(errors="replace")
    database = parts.path.removeprefix("/")
    complete = parts.scheme in ("mysql", "mariadb") and parts.hostname and parts.password is not None
    if not complete or parts.query or parts.fragment or "@" in (parts.hostname or ""):
        raise wrong(_WANT)
    if not (_USER.fullmatch(user) and _NAME.fullmatch(database) and _HOST.fullmatch(parts.hostname or "")):
        raise wrong(_WANT)
    password = unquote_to_bytes(parts.password or "")
    if problem := password_problem(password):
        raise wrong(problem)
    return Connection(parts.hostname or "", port, user, database, password)


def _checked(text: SecretStr) -> SecretStr:
    parse_connection(text.get_secret_value())
    return text


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise wrong("a database name: at most 64 letters, digits and `_`")
    return value


def _user(value: str) -> str:
    if not _USER.fullmatch(value):
        raise wrong("a database user: at most 128 characters without spaces, quotes, `#` and backslashes")
    return value


ConnectionText = Annotated[SecretStr, AfterValidator(_checked)]
DatabaseName = Annotated[str, AfterValidator(_name)]
DatabaseUser = Annotated[str, AfterValidator(_user)]
