"""The keys, options and commands that the pages name are there."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pydantic import BaseModel

from components.config.model import model_of
from components.config.program import Config
from components.config.slurm_keys.slurm_options import ALLOWED
from devcluster.__main__ import parser
from devcluster.machine.bootstrap import CHECKOUT
from tests.unit.docs.test_docs import PAGES

TEXTS = {page.name: page.read_text() for page in PAGES if page.parent.name != "adr"}
CODES = [
    (name, code)
    for name, text in TEXTS.items()
    for code in re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
]
COMMANDS = [
    line for text in TEXTS.values() for line in re.findall(r"^(?:sudo )?(\w.*)$|`([^`\n]+)`", text, re.MULTILINE)
]
SECTIONS = {str(info.alias) for info in Config.model_fields.values()}
FILES = re.compile(r"\.(conf|key|json|local|py|yaml)$")
OF_OTHERS = {
    # Kubernetes, its autoscalers and Pulumi.
    *("hostPID", "ignoreNullValues", "managedFields", "mountPropagation", "reportingInstance", "runtimeClassName"),
    *("scaleDown", "scaleUp", "securityContext", "updateStrategy", "prometheusOperator"),
    # The stack's outputs.
    *("loginSetAddresses", "watchNodesCommand"),
    # LDAP, and CUDA.
    *("gidNumber", "homeDirectory", "loginShell", "memberUid", "objectClass", "posixAccount", "posixGroup"),
    *("sshPublicKey", "uidNumber", "cuInit", "renderD"),
}


def aliases(model: type[BaseModel]) -> Iterator[str]:
    for info in model.model_fields.values():
        yield str(info.alias)
        if inside := model_of(info.annotation):
            yield from aliases(inside)


def is_there(path: str) -> bool:
    """Return whether a path of the configuration leads to a field, or to an entry of a map."""
    model: type[BaseModel] | None = Config
    in_map = False
    for part in path.split("."):
        if model is None:
            return in_map
        info = next((info for info in model.model_fields.values() if info.alias == part), None)
        if info is None:
            return False
        model, in_map = model_of(info.annotation), "dict[" in str(info.annotation)
    return True


def test_each_path_of_a_key_leads_to_one() -> None:
    written = re.compile(r"(?:pulumi-slurm:)?([a-z][A-Za-z]*(?:\[\d*\])?(?:\.[A-Za-z_.]+(?:\[\d*\])?)+)(?::.*)?")
    paths = [(name, found[1]) for name, code in CODES if (found := written.fullmatch(code))]
    keys = [(name, re.sub(r"\[\d*\]", "", path)) for name, path in paths if not FILES.search(path)]
    ours = [(name, path) for name, path in keys if re.split(r"\.", path)[0] in SECTIONS]
    assert len(ours) > 200
    assert [(name, path) for name, path in ours if not is_there(path)] == []


def test_each_option_of_slurm_conf_may_be_set() -> None:
    options = [(name, option) for name, code in CODES for option in re.findall(r"slurm\.options\.(\w+)", code)]
    assert len(options) > 10
    assert [(name, option) for name, option in options if option.lower() not in ALLOWED] == []


def test_each_word_in_camel_case_is_a_key() -> None:
    known = {*aliases(Config), *OF_OTHERS}
    words = [(name, word) for name, code in CODES for word in re.findall(r"(?<![\w.])([a-z]+[A-Z]\w*)(?![\w(])", code)]
    assert len(words) > 200
    assert [(name, word) for name, word in words if word not in known] == []


def test_each_command_of_make_and_devcluster_is_there() -> None:
    targets = set(re.findall(r"^([a-z][\w-]*):", (CHECKOUT / "Makefile").read_text(), re.MULTILINE))
    (commands,) = (action.choices for action in parser()._actions if action.dest == "command")
    lines = [line for pair in COMMANDS for line in pair if line.startswith(("make ", "python3 -m devcluster "))]
    named = [re.split(r"[ ;#]+", line) for line in lines]
    made = {words[1] for words in named if words[0] == "make" and re.fullmatch(r"[a-z][\w-]*", words[1])}
    called = {words[3] for words in named if words[0] == "python3" and words[3][:1].isalpha()}
    assert "up" in made
    assert "run" in called
    assert (made - targets, called - set(commands or ())) == (set(), set())
