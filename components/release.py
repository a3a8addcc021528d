"""The program's release, as pyproject.toml names it, also for `make release` and the images' labels."""

import tomllib
from pathlib import Path


def version() -> str:
    """Return the release of this checkout, or the next one after it, such as 1.0.0."""
    project = Path(__file__).parents[1] / "pyproject.toml"
    return str(tomllib.loads(project.read_text())["project"]["version"])
