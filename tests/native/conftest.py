import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]

Make = Callable[..., Path]


def _make(target: str, out: Path, *variables: str) -> Path:
    """Builds one program of native/ with the sanitizers."""
    settings = [f"OUT={out}", "CFLAGS=-O1 -g", *variables]
    command = ["make", "-s", "-C", str(REPOSITORY / "native"), *settings, str(out / target)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert built.returncode == 0, built.stderr
    return out / target


@pytest.fixture(scope="session")
def make() -> Make:
    return _make


@pytest.fixture(scope="session")
def jail_steps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _make("jail_steps", tmp_path_factory.mktemp("native"))
