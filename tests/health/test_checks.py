"""Each check on a fake machine: healthy, failing, and with a source that hangs or can't be read."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import pwd
import re
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from node_health import catalogue, node, run, thresholds
from node_health.check import Applies, Check, Context, Machine
from node_health.checks.kernel import clock, user_namespaces
from node_health.verdict import Finding, Skipped, Verdict
from slurm_node.pod import paths as entry_paths

from contract import names
from devcluster.fakes.gpu_scenario import MODES
from devcluster.machine.bootstrap import CHECKOUT
from tests.health.fakes import fake_machine
from tests.health.fakes.nvml import Nvml

SCENARIOS: dict[str, dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "fakes" / "scenarios.yaml").read_text())
CHECKS = {str(check.name): check for check in catalogue.load(*Applies)}
BAD = [
    pytest.param(name, row, id=f"{name}-{row['verdict']}-{number}")
    for name, scenario in SCENARIOS.items()
    for number, row in enumerate(scenario["bad"])
]


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The clock is kept, and the pod's name service knows alice."""
    monkeypatch.setattr(clock, "adjtimex", lambda: clock.Clock(True, 1.0))
    alice = pwd.struct_passwd(("alice", "x", 1001, 1001, "", "/home/alice", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda user: {1001: alice}[user])
    yield


def answer(machine: Machine, check: Check) -> tuple[str, str, str | None]:
    """Verdict, evidence and action of one check, made in this process."""
    given = run.questions(machine, [check])[0].ask
    try:
        found = given()[check.name]
    except Exception as error:  # the child of a time box does the same
        return "UNKNOWN", f"{type(error).__name__}: {error}", None
    if isinstance(found, Skipped):
        return "SKIPPED", found.why, None
    return found.verdict, found.evidence, found.action or (check.action if found.verdict != "PASS" else None)


def scenario_machine(root: Path, row: dict[str, Any], nvml: Nvml, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The fake machine of a scenario's row."""
    declared: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in row.get("declared", {}).items()
    }
    files = dict(row.get("files", {}))
    if "kmsg" in row:
        micros = int(row.get("at", 1)) * 1_000_000
        files["/dev/kmsg"] = "".join(f"6,{number},{micros},-;{text}\n" for number, text in enumerate(row["kmsg"]))
    if "clock" in row:
        monkeypatch.setattr(clock, "adjtimex", lambda: clock.Clock(*row["clock"]))
    modes = dict.fromkeys(range(fake_machine.GPUS), row["all"]) if "all" in row else row.get("gpus", {})
    nvml.says(modes, init=row.get("init", 0), after_calls=row.get("after_calls"))
    play_statvfs(root, row.get("statvfs", {}), monkeypatch)
    return fake_machine.build(root, files, dataclasses.replace(fake_machine.DECLARED, **declared))


def play_statvfs(root: Path, rows: dict[str, dict[str, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Has some paths of the fake machine lie on file systems with 100 blocks of a MiB."""
    there = {str(root / path.lstrip("/")): fields for path, fields in rows.items()}
    free = {"f_frsize": 1 << 20, **dict.fromkeys(("f_blocks", "f_bavail", "f_files", "f_favail"), 100), "f_flag": 0}
    real = os.statvfs

    def played(path: Path) -> Any:
        return SimpleNamespace(**free | there[str(path)]) if str(path) in there else real(path)

    monkeypatch.setattr(os, "statvfs", played)


def test_a_submount_that_refuses_root_to_list_it_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(folder: Path) -> Iterator[os.DirEntry[str]]:
        raise PermissionError(13, "Permission denied")

    machine = fake_machine.build(tmp_path)
    monkeypatch.setattr(os, "scandir", refuses)
    assert answer(machine, CHECKS["submounts"])[:2] == ("PASS", "/scratch answer")


def test_a_submount_that_refuses_root_its_size_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kerberos and FUSE may do so to root, and users' jobs work there."""
    machine, real = fake_machine.build(tmp_path), os.statvfs

    def refuses(path: Path) -> os.statvfs_result:
        if path.name == "scratch":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "statvfs", refuses)
    assert answer(machine, CHECKS["submounts"])[:2] == ("PASS", "/scratch answer")


def test_each_check_has_scenarios() -> None:
    assert sorted(SCENARIOS) == sorted(CHECKS)
    assert len(CHECKS) >= 30
    for name, scenario in SCENARIOS.items():
        verdicts = {row["verdict"] for row in scenario["bad"]}
        assert ("FAIL" in verdicts) == bool(CHECKS[name].fails), name
        assert verdicts & {"FAIL", "WARNING"}, name
        assert ("WARNING" in verdicts) == bool(CHECKS[name].warns), name


@pytest.mark.parametrize(("name", "row"), BAD)
def test_a_check_finds_what_is_wrong(
    name: str, row: dict[str, Any], tmp_path: Path, nvml: Nvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = scenario_machine(tmp_path, row, nvml, monkeypatch)
    if row.keys() & {"later", "later_gpu", "later_statvfs"}:
        assert answer(machine, CHECKS[name])[0] == "PASS"
    for path, text in row.get("later", {}).items():
        fake_machine.put(tmp_path, path, text)
    nvml.adds(3, row.get("later_gpu", {}))
    if "later_statvfs" in row:
        play_statvfs(tmp_path, row["later_statvfs"], monkeypatch)
    verdict, evidence, action = answer(machine, CHECKS[name])
    assert (verdict, row["says"] in evidence) == (row["verdict"], True), evidence
    assert row.get("action", action) == action


def test_a_healthy_machine_passes_every_check(tmp_path: Path) -> None:
    machine = fake_machine.build(tmp_path)
    found = {name: answer(machine, check) for name, check in CHECKS.items()}
    assert {name: given for name, given in found.items() if given[0] != "PASS"} == {}


def test_a_source_that_hangs_or_cannot_be_read_is_unknown_and_never_a_pass(tmp_path: Path, nvml: Nvml) -> None:
    """All sources hang at once: each check tells, in the time of one. The sleep stands for a source that hangs."""
    nvml.says(hangs=True)
    checks = [
        dataclasses.replace(check, look=lambda machine: time.sleep(1000))
        if SCENARIOS[name]["hangs"] == "look"
        else check
        for name, check in CHECKS.items()
    ]
    rounds: list[dict[str, str | None]] = [{}]
    for name in CHECKS:
        hangs = SCENARIOS[name]["hangs"]
        if isinstance(hangs, dict):
            rounds[0] |= hangs
    # What hangs for one check hides what hangs for another: that one has a machine of its own.
    alone = {"idle memory": "alone"}
    machine = fake_machine.build(tmp_path / "all", rounds[0])
    begun = time.monotonic()
    report = run.run(machine, [check for check in checks if check.name not in alone], seconds=1.5)
    assert time.monotonic() - begun < 10
    assert {
        result.check: result.finding for result in report.results if result.finding.verdict is not Verdict.UNKNOWN
    } == {}
    assert report.skipped == {}
    for name in alone:
        machine = fake_machine.build(tmp_path / "one", SCENARIOS[name]["hangs"])
        found = run.run(machine, [CHECKS[name]], seconds=0.5).results[0].finding
        assert found == Finding(Verdict.UNKNOWN, "no answer within 0.5 s")


def test_without_room_for_counters_a_lost_gpu_is_seen_and_rates_are_unknown(
    tmp_path: Path, nvml: Nvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = fake_machine.build(tmp_path)
    nvml.says({3: "fallen_off_bus"})

    def full(file: Path, text: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(node, "put", full)
    found = {name: answer(machine, CHECKS[name]) for name in ("gpus", "infiniband state", "submounts")}
    assert {name: verdict for name, (verdict, _, _) in found.items()} == {
        "gpus": "FAIL", "infiniband state": "PASS", "submounts": "PASS",
    }  # fmt: skip
    rates = ("gpu memory errors", "nvlink errors", "infiniband flaps", "network errors", "cpu steal", "memory errors")
    blind = ("UNKNOWN", "counters can't be kept until the next run: No space left on device")
    assert {name: answer(machine, CHECKS[name])[:2] for name in rates} == dict.fromkeys(rates, blind)


def test_a_sites_thresholds_go_before_the_published_ones(
    tmp_path: Path, nvml: Nvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"NVIDIA X1": {"gpu.smClock": 1980}, "any": {"gpu.temperatureMargin": 99}}
    (tmp_path / "own.json").write_text(json.dumps(own))
    machine = fake_machine.build(tmp_path / "machine")
    nvml.says(dict.fromkeys(range(8), "other_product"))
    without = "no thresholds for NVIDIA X1: health.thresholds may have it"
    assert answer(machine, CHECKS["gpu clocks"])[:2] == ("UNKNOWN", without), "once for all GPUs"
    monkeypatch.setattr(thresholds, "SITE", tmp_path / "own.json")
    assert answer(machine, CHECKS["gpu clocks"])[:2] == ("PASS", "8 GPUs: highest SM clock 1980 MHz")
    lacks = "no threshold gpu.powerLimit for NVIDIA X1: health.thresholds may have it"
    assert answer(machine, CHECKS["gpu power"])[:2] == ("UNKNOWN", lacks)
    assert answer(machine, CHECKS["gpu temperature"])[0] == "WARNING"
    assert answer(machine, CHECKS["clock"])[0] == "PASS", "other numbers are the published ones"
    (tmp_path / "bad.json").write_text("{")
    monkeypatch.setattr(thresholds, "SITE", tmp_path / "bad.json")
    assert answer(machine, CHECKS["gpu clocks"])[0] == "UNKNOWN"


def test_the_first_checks_keep_their_places_and_names() -> None:
    """Drains of a running cluster name them, and the first cause becomes the reason."""
    first = ["jail", "space", "memory", "cpus", "gpus", "kernel log", "user namespaces"]
    assert list(CHECKS)[:7] == first


def test_names_are_no_paths_and_end_at_a_reasons_colon() -> None:
    assert [name for name in CHECKS if ":" in name or "/" in name] == []


def test_a_node_without_gpus_or_adapters_loads_no_check_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    of_machine = {check.name for check in catalogue.of_node(fake_machine.DECLARED)}
    plain = catalogue.of_node(dataclasses.replace(fake_machine.DECLARED, gpus=0, rdma=0))
    assert {check.name for check in plain} == {
        check.name for check in CHECKS.values() if check.applies is Applies.NODES
    }
    assert of_machine == {check.name for check in CHECKS.values()}
    assert len(plain) >= 25
    others = catalogue.of_node(dataclasses.replace(fake_machine.DECLARED, nvidia=False, rdma=0))
    assert {str(check.name) for check in others} - {str(check.name) for check in plain} == {"gres"}


@pytest.mark.parametrize("applies", Applies)
def test_a_check_is_listed_where_it_applies(applies: Applies) -> None:
    assert {check.applies for check in catalogue.load(applies)} == {applies}


def test_slurm_runs_the_checks_of_each_context() -> None:
    programs = (CHECKOUT / "health" / "bin").glob("node-health-*")
    texts = "".join(program.read_text() for program in programs)
    run_there = {*re.findall(r"--context (\w+)|\bcontext=(\w+)", texts)}
    assert {word for words in run_there for word in words if word} == {*Context}
    assert all(check.contexts for check in CHECKS.values())


def test_gres_conf_is_read_where_the_entry_fetches_it() -> None:
    from node_health.checks.slurm import gres

    assert Path(gres.CONF) == entry_paths.FETCHED / names.GRES_CONF


def test_every_mode_of_the_fake_gpu_is_a_scenario() -> None:
    rows = [row for scenario in SCENARIOS.values() for row in scenario["bad"]]
    used = {mode for row in rows for mode in row.get("gpus", {}).values()}
    used |= {row["all"] for row in rows if "all" in row}
    assert used | {"healthy"} == set(MODES)


def test_a_user_namespace_that_worked_counts_for_a_while_and_says_since_when(tmp_path: Path) -> None:
    check, refuses = CHECKS["user namespaces"], {"/usr/bin/unshare": "#!/bin/sh\necho refused >&2; exit 1\n"}
    machine = fake_machine.build(tmp_path)
    assert answer(machine, check)[1] == "an ordinary user can make a user namespace"
    for path, text in refuses.items():
        fake_machine.put(tmp_path, path, text)
    verdict, evidence, _ = answer(machine, check)
    assert (verdict, " s ago)" in evidence) == ("PASS", True)
    long_ago = time.time() - user_namespaces.KEPT_SECONDS - 1
    os.utime(machine.path(user_namespaces.WORKED), (long_ago, long_ago))
    assert answer(machine, check)[0] == "WARNING"
    machine.path(user_namespaces.WORKED).unlink()
    assert answer(machine, check)[0] == "WARNING", "a refusal is not kept"
