"""The database: how it is found, what it may use, and who gets in."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from pydantic_core import PydanticCustomError
from slurm_database import start
from slurm_node.roles import accounting

from components import keys
from components.config import parse
from components.config.values.connection import Connection, parse_connection, password_problem
from components.config.values.quantities import memory_bytes
from components.slurm import database
from components.slurm.conf import slurmdbd_conf
from tests.unit.samples import changed, run_program

GOLDEN = Path(__file__).parents[1] / "golden_slurmdbd"
URL = "mysql://slurm:p%40ss%20%22%23%5C@db.example:3307/books"
EXTERNAL = changed("accounting", {"mode": "external", "external": {"connection": URL}})


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (URL, Connection("db.example", 3307, "slurm", "books", b'p@ss "#\\')),
        ("mariadb://a:b@10.0.0.1/c", Connection("10.0.0.1", 3306, "a", "c", b"b")),
        ("mysql://a:%C3%BC%00@h/c", None),
        ("mysql://a:%FF@h/c", Connection("h", 3306, "a", "c", b"\xff")),
    ],
)
def test_a_connection_is_one_text(text: str, parts: Connection | None) -> None:
    if parts is None:
        with pytest.raises(PydanticCustomError, match="without NUL"):
            parse_connection(text)
        return
    assert parse_connection(text) == parts


@pytest.mark.parametrize(
    "password", [b"", b"\0", b"a", b" a", b'a"b', b' "', b"a\n", b" " * 1025, "ü".encode(), b"\tx\\#"]
)
def test_preview_and_pod_refuse_the_same_passwords(password: bytes) -> None:
    try:
        accounting.password_line(password)
        refused = False
    except accounting.NodeError:
        refused = True
    assert (password_problem(password) is not None) == refused


def test_the_password_of_a_connection_is_in_its_secret_and_nowhere_else() -> None:
    engine, _ = run_program(EXTERNAL)
    secret = engine.one("Secret", "slurm-database-credentials")
    assert secret.is_secret("data")
    shown = repr(parse(EXTERNAL)) + "".join(
        repr(each.inputs) for each in engine.registered if each.name not in ("slurm-database-credentials",)
    )
    assert "p@ss" not in shown
    assert "p%40ss" not in shown
    external = parse(EXTERNAL).accounting.external
    assert external
    assert isinstance(external.connection, SecretStr)


def test_an_external_database_brings_no_pod_and_no_volume() -> None:
    assert database.manifests(parse(EXTERNAL)) == []
    assert slurmdbd_conf.connection(parse(EXTERNAL)).host == "db.example"


@pytest.mark.parametrize(("memory", "pool"), [("128Mi", 32), ("256Mi", 96), ("2Gi", 1440), ("64Gi", 49056)])
def test_the_buffer_pool_follows_the_memory_limit(memory: str, pool: int) -> None:
    assert database.buffer_pool_bytes(memory_bytes(memory)) == pool * 2**20


FULL = {
    "mode": "external",
    "external": {
        "host": "db.invalid",
        "port": 3307,
        "user": "ann",
        "database": "books",
        "passwordSecret": {"name": "s"},
    },
    "enforce": ["nosteps", "limits"],
    "retention": {
        "jobs": "24months",
        "steps": "6months",
        "events": "12months",
        "reservations": "30days",
        "suspensions": "30days",
        "transactions": "36months",
        "usage": "1000hours",
    },
}


@pytest.mark.parametrize(("name", "value"), [("mariadb", {"mode": "mariadb"}), ("full", FULL)])
def test_the_rendered_file_is_the_golden_one(name: str, value: dict[str, Any]) -> None:
    """A real slurmdbd takes them: tests/e2e/operator/test_accounting.py."""
    rendered = slurmdbd_conf.slurmdbd_conf(parse(changed("accounting", value)))
    assert rendered == (GOLDEN / f"{name}.conf").read_text()


def test_what_is_purged_is_not_archived() -> None:
    config = parse(changed("accounting.retention", {"jobs": "12months"}))
    lines = slurmdbd_conf.slurmdbd_conf(config).splitlines()
    assert "PurgeJobAfter=12months" in lines
    assert not [line for line in lines if line.startswith("Archive") and not line.startswith("ArchiveDir")]


def test_nothing_in_the_first_statements_needs_quoting_of_a_password() -> None:
    statements = start.first_statements("books", "o'neil", b"'; DROP DATABASE mysql; --")
    assert "DROP" not in statements
    assert "'o''neil'@'%'" in statements
    digest = hashlib.sha1(hashlib.sha1(b"'; DROP DATABASE mysql; --").digest()).hexdigest().upper()
    assert statements.count(f"*{digest}") == 2


def test_a_known_hash_is_the_one_of_mariadb() -> None:
    """SELECT PASSWORD('secret') on a real server."""
    assert start.password_hash(b"secret") == "*14E65567ABDB5135D0CFD9A70B3032C179A49EE7"


def test_the_generated_password_is_long_and_plain() -> None:
    one, other = (base64.b64decode(keys.generate(keys.DATABASE)["password"]) for _ in range(2))
    assert one != other
    assert len(one) == 32
    assert one.replace(b"-", b"").replace(b"_", b"").isalnum()
