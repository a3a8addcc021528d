"""The contract between programs can be copied beside any of them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from contract.conditions import ConditionType, Reason
from devcluster.machine.bootstrap import CHECKOUT

CONTRACT = CHECKOUT / "contract"
IN_THE_JAIL = ("__init__", "names", "paths")
"""Modules that jail commands import; the jail's Python may be 3.10, which has no StrEnum."""
PROGRAMS = ("bench", "components", "devcluster", "health", "images", "operator")
KUBERNETES_TOO = {ConditionType.AVAILABLE, ConditionType.PROGRESSING, ConditionType.READY, Reason.READY}
"""Types that Kubernetes' own objects have, too."""


def imported(module: Path) -> set[str]:
    """The packages that a module imports."""
    statements = list(ast.walk(ast.parse(module.read_text())))
    whole = {alias.name for each in statements if isinstance(each, ast.Import) for alias in each.names}
    parts = {str(each.module) for each in statements if isinstance(each, ast.ImportFrom)}
    return {name.partition(".")[0] for name in whole | parts}


@pytest.mark.parametrize("module", sorted(CONTRACT.glob("*.py")), ids=lambda module: module.stem)
def test_the_contract_imports_nothing_but_pythons_types(module: Path) -> None:
    more = set() if module.stem in IN_THE_JAIL else {"dataclasses", "enum"}
    assert imported(module) <= {"contract", "typing"} | more


def test_jail_commands_import_of_the_contract_what_the_jails_python_can() -> None:
    commands = CONTRACT.parent / "images/slurm/jail_commands"
    statements = [each for file in commands.glob("*.py") for each in ast.walk(ast.parse(file.read_text()))]
    froms = [each for each in statements if isinstance(each, ast.ImportFrom)]
    assert {alias.name for each in froms if each.module == "contract" for alias in each.names} == {"names", "paths"}
    assert not [each.module for each in froms if str(each.module).startswith("contract.")]


def test_a_conditions_type_and_reason_are_written_in_the_contract_alone() -> None:
    """A copy that is renamed alone would end a wait, or an alert, without a word."""
    ours = {*ConditionType, *Reason} - KUBERNETES_TOO
    copies = [
        f"{file.relative_to(CONTRACT.parent)}:{constant.lineno}: {constant.value}"
        for folder in PROGRAMS
        for file in (CONTRACT.parent / folder).rglob("*.py")
        for constant in ast.walk(ast.parse(file.read_text()))
        if isinstance(constant, ast.Constant) and constant.value in ours
    ]
    assert copies == []
