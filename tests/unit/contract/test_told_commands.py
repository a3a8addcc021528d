"""Commands that messages and docs tell people to run can be pasted: they name their namespace, and their pod."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]
PROGRAMS = ("components", "contract", "devcluster", "health", "images", "operator")
PAGES = (*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/**/*.md"), *CHECKOUT.glob("examples/**/*.md"))
WITHOUT_NAMESPACE = r"(taint|label) node|cordon|uncordon|drain|explain|delete validatingadmissionpolicybinding|get crd"
"""Commands about objects that no namespace holds."""
NAMESPACED = re.compile(rf"kubectl ((-n|--namespace) \S|({WITHOUT_NAMESPACE})\b|.*(-A|--all-namespaces)\b)")
ALONE = re.compile(r"kubectl( scale| delete| rollout restart| wait| describe| exec| apply| edit| replace)?( [a-z]+)?")
"""The name of a command: without an object nobody can run it."""
IN_A_POD = re.compile(r"exec \S+ -- $")
COMMAND = re.compile(r"\b(kubectl|scontrol|sacctmgr|scancel|squeue|sinfo) [-a-z{]")
WORDS_ABOUT = {
    "as scontrol reboot asked": "says what somebody did",
    "scontrol ping said": "says who answered",
    "only sacctmgr takes": "the command itself follows",
    "drain one with scontrol update": "an administrator's word, whatever the node and the reason",
    "`scontrol show topology`": "names a page",
    "`kubectl scale nodeset`": "names a way",
    "sacctmgr takes more": "names a program",
    "sacctmgr shows it": "names a program",
    "or: scancel --user=": "a message of the jail's slurm-user, which has that command",
    "squeue and sinfo leave": "names programs",
    "give with scontrol stay": "names a program",
    "kubectl {}: {}": "says what a failed run was",
    "kubectl port-forward": "says which program needs another",
    "kubectl against": "describes make's command",
}
"""Texts with such words that are no command to paste → why."""


def texts(file: Path) -> Iterator[str]:
    """Yield the texts of a module, but for docstrings; of formatted ones each value is `{}`."""
    tree = ast.parse(file.read_text())
    said = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    inside = {id(part) for each in ast.walk(tree) if isinstance(each, ast.JoinedStr) for part in each.values}
    for each in ast.walk(tree):
        if isinstance(each, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in each.values)
        elif isinstance(each, ast.Constant) and isinstance(each.value, str) and not {id(each)} & (said | inside):
            yield each.value


def is_whole(text: str, at: int) -> bool:
    """Return whether the command at that place of a text can be pasted."""
    if text.startswith("kubectl", at):
        return bool(NAMESPACED.match(text, at))
    return bool(IN_A_POD.search(text[:at]))


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_command_in_a_message_names_its_namespace_and_its_pod(program: str) -> None:
    files = [file for file in (CHECKOUT / program).rglob("*.py") if file.name != "commands.py" or program != "contract"]
    wrong = [
        f"{file.relative_to(CHECKOUT)}: {text[max(0, found.start() - 30) : found.end() + 60]}"
        for file in files
        for text in texts(file)
        for found in COMMAND.finditer(text)
        if not is_whole(text, found.start()) and not any(words in text for words in WORDS_ABOUT)
    ]
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_command_on_a_page_names_its_namespace(page: Path) -> None:
    text = page.read_text()
    blocks = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    spans = re.findall(r"`(kubectl[^`]*)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    lines = [line.strip() for line in blocks if re.match(r"\s*kubectl ", line)]
    told = [" ".join(command.split()) for command in (*spans, *lines)]
    assert [each for each in told if not (NAMESPACED.match(each) or ALONE.fullmatch(each))] == []
