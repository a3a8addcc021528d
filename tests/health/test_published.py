"""Files that are made of the checks are current, and all mistakes in thresholds are told at once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from node_health import catalogue
from node_health import thresholds as of_node
from node_health.check import Applies, Check
from published import reports, schema, table, thresholds

from contract.thresholds import OF_LONG_CHECKS, OF_MACHINES, OF_PRODUCTS

AGAIN = "run `PYTHONPATH=.:health .venv/bin/python -m published`, and look at `git diff`"


def test_the_files_are_current() -> None:
    assert schema.FILE.read_text() == schema.text(), AGAIN
    assert reports.FILE.read_text() == reports.text(), AGAIN
    assert of_node.FILE.read_text() == thresholds.text(), AGAIN
    assert table.FILE.read_text() == table.text(), AGAIN


def test_the_table_has_every_check_with_a_remedy() -> None:
    rows = [line for line in table.table().splitlines() if line.startswith("| `")]
    assert len(rows) == len(catalogue.load(*Applies))
    assert all(each.remedy and (each.fails or each.warns) for each in table.checks())


def test_every_threshold_is_used_and_every_used_one_has_a_unit() -> None:
    sources = Path(catalogue.__file__).parent / "checks"
    used = {key for file in sources.rglob("*.py") for key in re.findall(r"\.number\(\"([\w.]+)\"\)", file.read_text())}
    assert used == {*OF_MACHINES, *OF_PRODUCTS}
    assert not used & OF_LONG_CHECKS.keys(), "tests/unit/long_checks/test_gpu_checks.py shows what these do"


ANY = (thresholds.FOLDER / "any.yaml").read_text()
L4 = (thresholds.FOLDER / "l4.yaml").read_text()
HOST = "nvbandwidth.host: {value: "


def mistakes(folder: Path, **files: str) -> list[str]:
    for name, text in {"any": ANY, **files}.items():
        (folder / f"{name}.yaml").write_text(text)
    with pytest.raises(thresholds.ThresholdError) as raised:
        thresholds.read(folder)
    return str(raised.value).splitlines()


def test_all_mistakes_of_all_files_are_told_at_once_with_their_path(tmp_path: Path) -> None:
    wrong = L4.replace("gpu.smClock", "gpu.clock").replace("unit: W", "unit: kW").replace("value: 16", "value: -1")
    told = mistakes(tmp_path, l4=wrong, x=L4.replace("NVIDIA L4", "Matrox G400"), y="product: [", z="product: NVIDIA Z")
    assert [line for line in told if line.startswith("l4.yaml: thresholds.gpu.clock: unknown key; want one of ")]
    assert "l4.yaml: thresholds.gpu.powerLimit.unit: got 'kW'; want 'W'" in told
    assert "l4.yaml: thresholds.gpu.pcieWidth.value: got -1; want 0 or more, or unknown" in told
    assert "l4.yaml: thresholds.gpu.smClock: missing; want a value, or unknown" in told
    assert "x.yaml: product: got 'Matrox G400'; want any, or a name as the driver says it, NVIDIA … or Tesla …" in told
    assert [line for line in told if line.startswith("y.yaml: no YAML: ")]
    assert [line for line in told if line.startswith("z.yaml: thresholds: ")]


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ("value: 72", "value: much", "thresholds.gpu.powerLimit.value: got 'much'"),
        ('source: "NVIDIA L4 data sheet: 72 W"', 'source: ""', "source: got ''"),
        ("unit: W", "unit: W, extra: 1", "thresholds.gpu.powerLimit.extra: got 1"),
        (
            f"{HOST}unknown",
            f"{HOST}21.5",
            "thresholds.nvbandwidth.host.value: got 21.5; want a whole number of 1 or more",
        ),
        (f"{HOST}unknown", f"{HOST}0", "thresholds.nvbandwidth.host.value: got 0; want a whole number of 1 or more"),
        ("product: NVIDIA L4", "product: any", "product: got 'any', which another file has"),
    ],
)
def test_a_mistake_in_a_file_is_told(old: str, new: str, path: str, tmp_path: Path) -> None:
    assert old in L4
    text = L4.replace(old, new)
    if new.endswith("any"):
        text = ANY
    assert [line for line in mistakes(tmp_path, l4=text) if path in line]


def test_a_product_without_a_file_or_a_number_is_unknown() -> None:
    assert of_node.of("NVIDIA L4").number("gpu.powerLimit") == 72
    with pytest.raises(of_node.UnknownThresholdError, match="no thresholds for NVIDIA Z"):
        of_node.of("NVIDIA Z").number("gpu.powerLimit")
    with pytest.raises(
        of_node.UnknownThresholdError, match=re.escape("no threshold nvlink.links for NVIDIA H100 PCIe")
    ):
        of_node.of("NVIDIA H100 PCIe").number("nvlink.links")


def test_a_check_is_one_module() -> None:
    names = [name for modules in catalogue.MODULES.values() for name in modules]
    files = {
        str(file.relative_to(Path(catalogue.__file__).parent / "checks").with_suffix("")).replace("/", ".")
        for file in (Path(catalogue.__file__).parent / "checks").rglob("*.py")
        if file.name != "__init__.py"
    }
    assert sorted(names) == sorted(files)
    assert all(isinstance(each, Check) for each in catalogue.load(*Applies))
