"""No error of the configuration hides another: wrong rows of lists and wrong words of values are all told."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any, get_args, get_origin

import pytest
from pydantic import BaseModel, ValidationError

from components.config import ConfigurationError, parse
from components.config.model import model_of
from components.config.program import Config
from tests.unit.config.wrong_values import WRONG_VALUES
from tests.unit.samples import SMALL, changed

WRONG = {"\0": 1}
"""A value that no field takes."""

Path = tuple[str | int, ...]


def container(annotation: Any) -> type | None:
    """The list or dict that a field is; None for another type, and for one that may be left out."""
    origin = get_origin(annotation)
    return origin if origin in (list, dict) else None


def paths(raw: dict[str, Any]) -> set[Path]:
    with pytest.raises(ConfigurationError) as refused:
        parse(raw)
    return {problem.path for problem in refused.value.problems}


def two_wrong_items(model: type[BaseModel], at: Path = ()) -> tuple[dict[str, Any], list[Path]]:
    """A section with two wrong items in each list and map, also of the first rows of its lists; the items' paths."""
    raw: dict[str, Any] = {}
    wrong: list[Path] = []
    for info in model.model_fields.values():
        key = str(info.alias)
        kind = next(filter(None, map(container, (info.annotation, *get_args(info.annotation)))), None)
        below, first = ((*at, key, 0), 1) if kind is list else ((*at, key), 0)
        inside = model_of(info.annotation)
        section, further = two_wrong_items(inside, below) if inside is not None else (WRONG, [])
        wrong += further
        if kind is list:
            raw[key] = [section, WRONG, WRONG] if inside is not None else [WRONG, WRONG]
            start = first if inside is not None else 0
            wrong += [(*at, key, start), (*at, key, start + 1)]
        elif kind is dict:
            raw[key] = {"\0a": WRONG, "\0b": WRONG}
            wrong += [(*at, key, "\0a"), (*at, key, "\0b")]
        elif inside is not None:
            raw[key] = section
    return raw, wrong


def test_two_wrong_items_of_each_list_and_map_are_all_told() -> None:
    raw, wrong = two_wrong_items(Config)
    assert len(wrong) > 400
    told = {one[: len(path)] for one in paths(raw) for path in wrong if one[: len(path)] == path}
    assert [path for path in wrong if path not in told] == []


def wrong_rows(model: type[BaseModel], raw: Any) -> Any:
    """The configuration with a wrong row at the end of each list of rows: each of its fields but the name is wrong."""
    raw = dict(raw)
    for info in model.model_fields.values():
        key, inside = str(info.alias), model_of(info.annotation)
        value = raw.get(key)
        if inside is None:
            continue
        if container(info.annotation) is list and isinstance(value, list | None):
            rows = [wrong_rows(inside, row) if isinstance(row, dict) else row for row in value or []]
            fields = [str(field.alias) for field in inside.model_fields.values()]
            name = {"name": "wrong"} if "name" in fields else {}
            raw[key] = [*rows, dict.fromkeys(fields, WRONG) | name]
        elif isinstance(value, dict):
            raw[key] = wrong_rows(inside, value)
        elif value is None and container(info.annotation) is None and not info.is_required():
            default = info.get_default(call_default_factory=True, validated_data={})
            raw[key] = wrong_rows(inside, {}) if default is not None else value
    return raw


def test_a_wrong_row_of_any_list_hides_no_error_of_a_rule() -> None:
    hidden = {}
    for path, value, _ in WRONG_VALUES:
        gpus = path.startswith(("gpuOperator", "nodeSets.0.gpus."))
        raw = changed(path, value, changed("nodeSets.0.gpus", {"type": "h100", "perNode": 2}) if gpus else SMALL)
        with suppress(ValidationError):
            Config.model_validate(raw)
            # Partitions that are left out are those of the default: a wrong row would take its place.
            raw.setdefault("partitions", [{"name": "main", "nodeSets": ["cpu"]}])
            told = paths(wrong_rows(Config, copy.deepcopy(raw)))
            for one in paths(raw):
                if not any(other[: len(one)] == one for other in told):
                    hidden[one] = value
    assert hidden == {}


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("slurm.options", {"SelectTypeParameters": "CR_Core,CR_Memory,x,y"}, ["of CR_Core:", "of CR_Memory:", "x, y"]),
        ("slurm.options", {"SchedulerParameters": "bf_window=0,max_job_bf=1,bf_interval=x"}, ["_window", "_interval"]),
        ("slurm.options", {"SchedulerParameters": "-x,bf_window=0,max_job_bf=1"}, ["take out", "_window", "_bf"]),
        ("slurm.options", {"AccountingStorageTRES": "cpus,memory"}, ["in place of cpus, memory"]),
        ("slurm.options", {"PriorityWeightTRES": "cpu=x,foo=1,bar"}, ["of cpu=x, bar;", "of foo, bar"]),
        ("slurm.files", {"mpi.conf": "\0" + "a" * 600_000}, ["without NUL", "at most 512 KiB"]),
        ("slurm.scripts.prolog", [{"name": "a", "text": "echo\r\n\0"}], ["with `#!`", "without NUL", "newline alone"]),
        (
            "slurm.spankPlugins",
            [{"file": "spank_pyxis.so", "arguments": ["container_scope=job", "a=1", "container_scope=job"]}],
            ["arguments[0]", "arguments[2]"],
        ),
        (
            "nodeSets.0.options",
            {"Sockets": 9, "MemSpecLimit": 9999, "RestrictedCoresPerGPU": 1},
            ["Sockets x", "RealMemory", "gpus beside it"],
        ),
        (
            "nodeSets.0.gres",
            [{"name": name, "perNode": 1, "devices": f"/dev/x{number}"} for number, name in enumerate("ab")]
            + [{"name": "c", "perNode": 2, "devices": "/dev/x[0-1]"}],
            ["/dev/x0 is one of", "/dev/x1 is one of"],
        ),
    ],
)
def test_a_value_with_two_errors_tells_both(path: str, value: Any, words: list[str]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse(changed(path, value))
    assert [word for word in words if word not in str(refused.value)] == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("JobAcctGatherParams", "NoOverMemoryKill"),
        ("TaskPlugin", "afinity"),
        ("JobCompType", "jobcomp/mysql"),
        ("TopologyPlugin", "topology/tree"),
    ],
)
def test_a_line_of_a_site_is_refused_for_one_reason(key: str, value: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse(changed("slurm.options", {key: value}))
    assert len(refused.value.problems) == 1


def test_rows_that_are_all_wrong_are_told_with_rules_that_read_them() -> None:
    check = {"name": "a", "partition": "main", "builtin": "memory-bandwidth", "least": 1}
    raw = changed("health.longChecks", [check], changed("nodeSets", [17]))
    assert paths(raw) == {("nodeSets", 0)}


MIG = {"type": "1g.10gb", "perNode": 2, "resource": "nvidia.com/mig-1g.10gb"}
FILES = "/dev/nvidia0,/dev/nvidia-caps/nvidia-cap[21-22]"
BLOCKS = {"name": "nvlink", "type": "block", "blocks": ["a"]}


@pytest.mark.parametrize(
    ("path", "value", "wrong"),
    [
        ("nodeSets.0.gpus", {**MIG, "multipleFiles": [FILES, 17]}, ("multipleFiles", 1)),
        ("nodeSets.0.gpus", {**MIG, "perNode": 1, "multipleFiles": ["/dev/nvidia0"]}, ("multipleFiles", 0)),
        ("slurm.topologies", [{**BLOCKS, "blockSizes": ["x", 4, 12]}], (0, "blockSizes", 0)),
        ("slurm.topologies", [{**BLOCKS, "blockSizes": [0, 4, 8]}], (0, "blockSizes", 0)),
        ("slurm.topologies", [{**BLOCKS, "blockSizes": ["x"]}], (0, "blockSizes", 0)),
        ("slurm.topologies", [{"name": "t", "type": "tree", "switches": {"b": 17}}], (0, "switches", "b")),
        ("slurm.topologies", [{"name": "t", "type": "tree", "switches": {"b": ["c", 17]}}], (0, "switches", "b", 1)),
        ("nodeSets.0.topology", [{"name": "t", "labels": [17]}], (0, "labels", 0)),
        ("nodeSets.0.topology", [{"name": "t", "unit": "top", "labels": [17]}], (0, "labels", 0)),
        ("networkOperator", {"mode": "install", "pools": [17]}, ("pools", 0)),
        ("accounting.enforce", ["limit"], (0,)),
    ],
)
def test_a_wrong_item_causes_no_second_error(path: str, value: Any, wrong: Path) -> None:
    raw = changed(path, value)
    if path == "nodeSets.0.topology":
        switches = {"top": ["rack1"]}
        raw = changed("slurm.topologies", [{"name": "t", "type": "tree", "switches": switches}], raw)
    elif path == "slurm.topologies":
        raw = changed("nodeSets.0.topology", [{"name": value[0]["name"], "unit": "a"}], raw)
    elif path == "accounting.enforce":
        raw = changed("accounting.qos", [{"name": "high", "limits": {"MaxJobsPerUser": 5}}], raw)
    at = tuple(int(part) if part.isdigit() else part for part in path.split("."))
    assert paths(raw) == {(*at, *wrong)}
