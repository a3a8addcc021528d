"""The accounting pod: slurmdbd as an unprivileged user.

When slurmdbd gives up, it is restarted in the same container. So its own words about the database stay in one pod's
log, where the operator reads them.
"""

import os

from contract import names
from slurm_node.pod import keys, paths
from slurm_node.pod.log import NodeError
from slurm_node.pod.supervise import Daemon, run

PASSWORD = paths.DATABASE_SECRETS / names.DATABASE_PASSWORD
SCRIPT = paths.ACCOUNTING_RUN / "password"
SPACES = b" \t\n\v\f\r"
"""Bytes that Slurm's xstrtrim removes at both ends (isspace(3) in the C locale)."""
LONGEST_QUOTED_BYTES = 1024


def main() -> int:
    """Writes slurmdbd.conf with the owner and mode that slurmdbd requires, and keeps slurmdbd running."""
    key = keys.install(paths.SLURM_SECRETS / names.SLURM_KEY, paths.ACCOUNTING_RUN / names.SLURM_KEY)
    keys.install(paths.SLURM_SECRETS / names.JWT_KEY, paths.ACCOUNTING_RUN / names.JWT_KEY)
    try:
        password = PASSWORD.read_bytes()
        settings = (paths.ETC_ACCOUNTING / names.SLURMDBD_CONF).read_bytes()
    except OSError as error:
        raise NodeError(f"{error.filename}: {error.strerror}: is the Secret or ConfigMap mounted?") from error
    _write(paths.ACCOUNTING_RUN / names.SLURMDBD_CONF, settings + password_line(password), 0o600)
    _write(SCRIPT, password_script(), 0o700)
    environment = {
        # slurmdbd looks for its file beside this one; it never reads slurm.conf itself.
        "SLURM_CONF": str(paths.ACCOUNTING_RUN / names.SLURM_CONF),
        "SLURM_SACK_KEY": str(key),
        "RUNTIME_DIRECTORY": str(paths.ACCOUNTING_RUN),
    }
    return run([Daemon("slurmdbd", [f"{paths.PREFIX}/sbin/slurmdbd", "-D"], environment)])


def password_line(password: bytes) -> bytes:
    """Returns the line of slurmdbd.conf with the password, or with the way to get it.

    A script passes every byte, and reads the Secret again when the database refuses the password. But Slurm strips its
    answer. A quoted value keeps spaces at its ends. Inside it, a backslash escapes `#` and itself.

    Raises:
        NodeError: neither way can carry it.
    """
    if not password:
        raise NodeError(f"{PASSWORD} is empty: slurmdbd takes an empty password for none")
    if b"\0" in password:
        raise NodeError("the database password holds NUL, at which Slurm takes it to end: choose another")
    if password.strip(SPACES) == password:
        return f"StoragePassScript={SCRIPT}\n".encode()
    if any(character in password for character in (b'"', b"\n", b"\r")) or len(password) > LONGEST_QUOTED_BYTES:
        raise NodeError(
            "the database password begins or ends with a space or newline, and holds a double quote or a newline or "
            f"more than {LONGEST_QUOTED_BYTES} bytes: Slurm has no way to write that. Is a newline at its end meant?"
        )
    escaped = password.replace(b"\\", b"\\\\").replace(b"#", b"\\#")
    return b'StoragePass="' + escaped + b'"\n'


def password_script() -> bytes:
    """Returns the program that slurmdbd asks for the password; Slurm wants TOKEN= before it."""
    return f"#!/bin/sh\nprintf TOKEN= && exec cat {PASSWORD}\n".encode()


def _write(path: os.PathLike[str], content: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(content)
