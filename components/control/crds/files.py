"""The CRDs as the program applies them, and as operator/crds shows them to people (tests/unit/golden_files.py)."""

from pathlib import Path
from typing import Any, Final

import yaml

from components.control.crds import node_set, slurm_cluster

FOLDER: Final = Path(__file__).parents[3] / "operator" / "crds"
_HEAD: Final = "# Made from the models of components/config by `.venv/bin/python -m tests.unit.golden_files`.\n"


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, _data: Any) -> bool:
        return True


def definitions() -> list[dict[str, Any]]:
    """The CRDs."""
    return [node_set.crd(), slurm_cluster.crd()]


def files() -> dict[str, str]:
    """Name of each file, and its content."""
    return {f"{crd['spec']['names']['plural']}.yaml": _HEAD + _text(crd) for crd in definitions()}


def _text(crd: dict[str, Any]) -> str:
    return yaml.dump(crd, Dumper=_Dumper, sort_keys=False, width=120)
