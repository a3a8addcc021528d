"""Fields of slurm.scripts; tests/unit/slurm/test_site_scripts.py shows the effect of each."""

from __future__ import annotations

from typing import Final

from contract.site_scripts import Kind

PATHS: Final = {f"slurm.scripts.{kind}.{key}" for kind in Kind for key in ("name", "text", "path", "timeLimit")}
