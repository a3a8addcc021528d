"""Prepares an empty volume, creates the database and its user, and becomes mariadbd."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from contract import names, paths, pod_variables

VOLUME = Path(paths.DATABASE_VOLUME)
DATA = VOLUME / "data"
"""A folder of the volume, since a file system has its lost+found at the top."""
RUN = Path(paths.DATABASE_RUN)
SOCKET = RUN / "mariadb.sock"
PASSWORD = Path(paths.DATABASE_PASSWORD_FILE)
TLS = Path(paths.SECRETS_DATABASE_TLS)
"""Folder with certificate, key and CA, if the pod has them."""
OS_USER = names.DATABASE_OS_USER
"""The only user in the pod that administers the server, over its socket without a password."""

OPTIONS = (
    "--no-defaults",
    f"--datadir={DATA}",
    f"--socket={SOCKET}",
    f"--pid-file={RUN / 'mariadb.pid'}",
    "--bind-address=*",
    # Client names are never looked up: accounts are valid for every address, and the network policy limits those.
    "--skip-name-resolve",
    "--character-set-server=utf8mb4",
    # Roll-ups and purges of slurmdbd are long transactions, so it asks for this (slurmdbd(8)).
    "--innodb-lock-wait-timeout=900",
    # slurmdbd ends for good when a write meets another transaction's under this isolation (its own log says so).
    "--innodb-snapshot-isolation=OFF",
    "--max-allowed-packet=16M",
    "--innodb-log-file-size=64M",
    "--performance-schema=OFF",
    # Caches of engines that hold the server's own small tables alone: Slurm's are InnoDB's, whose cache the pod sizes.
    "--aria-pagecache-buffer-size=8M",
    "--key-buffer-size=1M",
    "--max-connections=100",
)


def password_hash(password: bytes) -> str:
    """Returns the hash of a password in mysql.user (mysql_native_password), which needs no quoting."""
    return "*" + hashlib.sha1(hashlib.sha1(password).digest()).hexdigest().upper()  # noqa: S324 - as the protocol says


def first_statements(database: str, user: str, password: bytes) -> str:
    """Returns SQL for each start: it creates database and user if missing, and sets the current password."""
    name, account = f"`{_doubled(database, '`')}`", f"'{_doubled(user, chr(39))}'@'%'"
    identified = f"IDENTIFIED BY PASSWORD '{password_hash(password)}'"
    return "".join(
        f"{statement};\n"
        for statement in (
            f"CREATE DATABASE IF NOT EXISTS {name}",
            f"CREATE USER IF NOT EXISTS {account} {identified}",
            f"ALTER USER {account} {identified}",
            f"GRANT ALL PRIVILEGES ON {name}.* TO {account}",
        )
    )


def _doubled(text: str, quote: str) -> str:
    return text.replace(quote, quote * 2)


def main(further: Sequence[str], environment: Mapping[str, str] = os.environ) -> NoReturn:
    """Becomes mariadbd, or ends with the reason.

    Args:
        further: options of mariadbd that depend on the pod, such as its buffer pool's size.
        environment: DATABASE_NAME and DATABASE_USER.
    """
    try:
        init_file = prepare(environment[pod_variables.DATABASE_NAME], environment[pod_variables.DATABASE_USER])
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"slurm-database: error: {error}")
    if TLS.exists():
        # This process ends with the container, as mariadbd does.
        subprocess.Popen([sys.executable, "-m", "slurm_database.renewal"])
    os.execv("/usr/sbin/mariadbd", ["mariadbd", *OPTIONS, f"--init-file={init_file}", *further])  # noqa: S606 - no shell is wanted


def prepare(database: str, user: str) -> Path:
    """Creates the server's own tables on an empty volume; returns the statements for each start."""
    if not DATA.exists():
        install()
    init_file = RUN / "init.sql"
    init_file.touch(mode=0o600)
    init_file.write_text(first_statements(database, user, PASSWORD.read_bytes()))
    return init_file


def install() -> None:
    """Creates the server's own tables in another folder first, so an interrupted start leaves no partial database."""
    aside = DATA.with_name("data.new")
    shutil.rmtree(aside, ignore_errors=True)
    subprocess.run(
        [
            "mariadb-install-db",
            "--no-defaults",
            f"--datadir={aside}",
            "--skip-test-db",
            "--skip-name-resolve",
            "--auth-root-authentication-method=socket",
            f"--auth-root-socket-user={OS_USER}",
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    aside.rename(DATA)
