"""Sources that several checks share: counters over time, lists of CPUs and devices, the kernel's clock and log."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from node_health import node
from node_health.check import CannotJudgeError, DoesNotApplyError, Machine
from node_health.checks.cpu import cpus
from node_health.checks.kernel import clock
from node_health.checks.slurm import gres
from node_health.sources import counters, gpu_facts, interfaces, kmsg, mounts, product
from node_health.sources import nvml as source
from node_health.sources.counters import Increase
from node_health.sources.gone import gone
from node_health.sources.nvidia_errors import xids
from node_health.verdict import Action

from tests.health.fakes import fake_machine
from tests.health.fakes.nvml import Nvml


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds since boot, which a test moves."""
    moment = [1000.0]
    monkeypatch.setattr(time, "clock_gettime", lambda _: moment[0])
    return moment


def grown(machine: Machine, value: int) -> tuple[int, float]:
    found = counters.increase(machine, "x", {"a": value})
    return found.by["a"], found.hours


def test_xids_that_drain_a_node_are_those_that_need_a_reset_or_restart_by_nvidias_catalog() -> None:
    drain = (46, 48, 54, 62, 64, 79, 95, 109, 110, 119, 120, 140, 143, 151, 158)
    assert sorted(xids.FATAL) == [*drain]
    assert {xids.XIDS[number].action for number in (13, 31, 43, 45, 94)} == {Action.RESTART_APP, Action.IGNORE}
    assert len(xids.XIDS) > 90


def test_counters_are_compared_with_an_hour_ago(tmp_path: Path, now: list[float]) -> None:
    machine = Machine(root=tmp_path)
    assert grown(machine, 100) == (0, 0)
    seen = []
    for minutes in (10, 31, 62, 93, 124):
        now[0] = 1000.0 + minutes * 60
        seen.append(grown(machine, 100 + minutes))
    assert [by for by, _ in seen] == [10, 31, 62, 62, 62]
    assert [round(hours * 60) for _, hours in seen] == [10, 31, 62, 62, 62]


def test_a_counter_that_was_reset_or_is_new_starts_again(tmp_path: Path, now: list[float]) -> None:
    machine = Machine(root=tmp_path)
    grown(machine, 100)
    assert counters.increase(machine, "x", {"a": 7, "b": 9}).by == {"a": 7, "b": 0}


@pytest.mark.parametrize("text", ["", "{", "7", '{"a": 1}', "[[1]]", '[[5, {"a": "x"}]]', '[["x", {}]]'])
def test_what_was_kept_and_is_no_counter_is_forgotten(text: str, tmp_path: Path, now: list[float]) -> None:
    fake_machine.put(tmp_path, str(node.COUNTERS / "x.json"), text)
    assert grown(Machine(root=tmp_path), 100) == (0, 0)
    assert json.loads((tmp_path / str(node.COUNTERS).lstrip("/") / "x.json").read_text()) == [[1000.0, {"a": 100}]]


def test_counters_of_before_a_boot_are_forgotten(tmp_path: Path, now: list[float]) -> None:
    machine = Machine(root=tmp_path)
    grown(machine, 100)
    now[0] = 5.0
    assert grown(machine, 3) == (0, 0)


def test_a_state_lasts_from_the_first_of_the_runs_that_see_it(tmp_path: Path, now: list[float]) -> None:
    machine = Machine(root=tmp_path)
    assert counters.lasting(machine, "x", ["a"]) == {"a": 0}
    now[0] += 30
    assert counters.lasting(machine, "x", ["a", "b"]) == {"a": 30, "b": 0}
    now[0] += 30
    assert counters.lasting(machine, "x", ["b"]) == {"b": 30}
    now[0] += 30
    assert counters.lasting(machine, "x", ["a", "b"]) == {"a": 0, "b": 60}
    now[0] = 5.0
    assert counters.lasting(machine, "x", ["b"]) == {"b": 0}, "of a boot before"


def test_a_single_event_is_no_high_rate() -> None:
    assert Increase({"a": 1}, 0.01).per_hour("a") == 1
    assert Increase({"a": 3}, 1.5).per_hour("a") == 2
    assert Increase({}, 1.5).per_hour("a") == 0


def test_lists_of_cpus_and_of_device_files() -> None:
    assert cpus.numbers("0-3,8") == {0, 1, 2, 3, 8}
    assert gres.expand("/dev/nvidia[0-2,7]") == [f"/dev/nvidia{number}" for number in (0, 1, 2, 7)]
    assert gres.expand("/dev/nvidia0") == ["/dev/nvidia0"]


def test_the_kernel_tells_about_its_clock() -> None:
    assert clock.adjtimex().error_ms >= 0


def test_a_log_that_cannot_be_opened_is_refused_and_one_that_is_not_given_does_not_apply(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    with pytest.raises(DoesNotApplyError):
        _ = kmsg.look(Machine(root=tmp_path)).read
    (tmp_path / "dev/kmsg").symlink_to("kmsg")
    refused = kmsg.look(Machine(root=tmp_path))
    assert refused.refused == "the kernel's log can't be read (/dev/kmsg: Too many levels of symbolic links)"
    with pytest.raises(OSError, match="can't be read"):
        _ = refused.read


@pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK), reason="this machine gives no /dev/kmsg")
def test_the_kernels_own_log_is_read() -> None:
    assert kmsg.look(Machine()).messages is not None


def test_a_mount_with_a_space_in_its_path_is_found_and_the_last_one_on_a_point_counts(tmp_path: Path) -> None:
    lines = "20 1 0:1 / /a\\040b rw - ext4 x rw\n21 1 0:1 / /a\\040b ro - tmpfs x rw\n"
    fake_machine.put(tmp_path, mounts.MOUNTINFO, lines)
    assert mounts.look(Machine(root=tmp_path))["/a b"].kind == "tmpfs"


def test_interfaces_of_one_kind_are_kin(tmp_path: Path) -> None:
    machine = fake_machine.build(tmp_path, fake_machine.interface("ib0"))
    groups = interfaces.kin(interfaces.look(machine))
    assert [[each.name for each in group] for group in groups.values()] == [["ib0"], ["net1", "net2"]]


def test_a_product_is_read_without_nvml(tmp_path: Path) -> None:
    machine = fake_machine.build(tmp_path)
    assert product.look(machine) == "NVIDIA H100 80GB HBM3"
    with pytest.raises(CannotJudgeError):
        product.look(Machine(root=tmp_path / "none"))


def test_a_gpu_that_is_lost_half_way_is_lost(tmp_path: Path, nvml: Nvml) -> None:
    nvml.says({2: "restart_wanted", 5: "lost"})
    seen = source.look(fake_machine.build(tmp_path))
    assert [gpu.index for gpu in seen.gpus if gpu.lost] == [2, 5]
    assert seen.gpus[2].uuid == "GPU-fake-2", "its name was read before"
    assert gpu_facts.Fact.RETIRED_PENDING not in seen.gpus[0].facts
    assert len(seen.gpus[0].facts) == len(gpu_facts.Fact) - 2, "all but retired pages and recoveries of NVLink 5"


def test_a_gpu_keeps_its_counters_when_one_before_it_falls_off_the_bus(tmp_path: Path, nvml: Nvml) -> None:
    machine, corrected = fake_machine.build(tmp_path), {"corrected": 5000}
    nvml.adds(4, corrected)
    source.look(machine)
    nvml.says({3: "fallen_off_bus"})
    nvml.adds(4, corrected)
    grew = source.look(machine).grew
    assert grew.hours > 0
    assert set(grew.by.values()) == {0}


@pytest.mark.parametrize("text", ["", "{}", "[]", '["", 5]', '["", null]'])
def test_a_file_of_known_devices_that_cannot_be_read_is_written_anew(tmp_path: Path, text: str) -> None:
    machine = Machine(root=tmp_path)
    file = machine.path(node.COUNTERS / "known-things.json")
    file.parent.mkdir(parents=True)
    file.write_text(text)
    assert gone(machine, "things", ["a", "b"]) == ()
    assert gone(machine, "things", ["b"]) == ("a",)
    assert gone(machine, "things", ["a", "b", "c"]) == ()


def test_two_runs_that_write_one_file_leave_it_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person starts node-health while Slurm runs it: one writes its whole file in the middle of the other's write."""
    file, real, own = tmp_path / "x.json", Path.replace, os.getpid()

    def meanwhile(aside: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "replace", real)
        monkeypatch.setattr(os, "getpid", lambda: own + 1)
        node.put(file, "other")
        return real(aside, target)

    monkeypatch.setattr(Path, "replace", meanwhile)
    node.put(file, "own")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("x.json", "own")]


def test_a_write_that_fails_leaves_no_file_of_its_process(tmp_path: Path) -> None:
    (tmp_path / "x.json").mkdir()
    with pytest.raises(IsADirectoryError):
        node.put(tmp_path / "x.json", "own")
    assert [each.name for each in tmp_path.iterdir()] == ["x.json"]
