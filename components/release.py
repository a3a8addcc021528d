"""Which release of the program this is: pyproject.toml says it, also for `make release` and the images' labels."""

import tomllib
from pathlib import Path


def version() -> str:
    """The release that this checkout is, or is on its way to, such as 1.0.0."""
    project = Path(__file__).parents[1] / "pyproject.toml"
    return str(tomllib.loads(project.read_text())["project"]["version"])
