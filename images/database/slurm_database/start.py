"""Prepares an empty volume, sees to the database and its user, and becomes mariadbd."""

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
"""Not the volume itself: file systems have a lost+found of their own there."""
RUN = Path(paths.DATABASE_RUN)
SOCKET = RUN / "mariadb.sock"
PASSWORD = Path(paths.DATABASE_PASSWORD_FILE)
TLS = Path(paths.SECRETS_DATABASE_TLS)
"""Certificate, key and CA, where there are any."""
OS_USER = names.DATABASE_OS_USER
"""May administer the server over its socket, without a password; nobody else may from inside the pod."""

OPTIONS = (
    "--no-defaults",
    f"--datadir={DATA}",
    f"--socket={SOCKET}",
    f"--pid-file={RUN / 'mariadb.pid'}",
    "--bind-address=*",
    # Names of clients are never looked up: accounts hold for every address, and the network policy says which.
    "--skip-name-resolve",
    "--character-set-server=utf8mb4",
    # slurmdbd(8): long transactions of roll-ups and purges.
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
    """Returns what mysql.user keeps of a password (mysql_native_password): no quoting can go wrong on the way."""
    # It is the protocol's own choice of hash, not ours.
    return "*" + hashlib.sha1(hashlib.sha1(password).digest()).hexdigest().upper()  # noqa: S324


def first_statements(database: str, user: str, password: bytes) -> str:
    """Returns SQL that may run at each start: database and user are there, with today's password."""
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
    """Becomes mariadbd, or ends with why not.

    Args:
        further: options of mariadbd that depend on the pod, such as its buffer pool's size.
        environment: DATABASE_NAME and DATABASE_USER.
    """
    try:
        init_file = prepare(environment[pod_variables.DATABASE_NAME], environment[pod_variables.DATABASE_USER])
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"slurm-database: error: {error}")
    if TLS.exists():
        # It ends with the container, as mariadbd itself does.
        subprocess.Popen([sys.executable, "-m", "slurm_database.renewal"])
    os.execv("/usr/sbin/mariadbd", ["mariadbd", *OPTIONS, f"--init-file={init_file}", *further])  # noqa: S606 - no shell is wanted


def prepare(database: str, user: str) -> Path:
    """Makes the server's own tables on an empty volume; returns the statements that each start begins with."""
    if not DATA.exists():
        install()
    init_file = RUN / "init.sql"
    init_file.touch(mode=0o600)
    init_file.write_text(first_statements(database, user, PASSWORD.read_bytes()))
    return init_file


def install() -> None:
    """Makes the server's own tables, aside first: a start that was ended half way leaves no half of a database."""
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
