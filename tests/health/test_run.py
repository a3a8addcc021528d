"""A run: checks that share a source, that are switched off, that have defects; and what it costs."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pynvml
import pytest
from node_health import catalogue, report, run
from node_health.check import Applies, Check, DoesNotApplyError, Machine
from node_health.verdict import Action, Finding, Verdict, fails, passes, warns
from published import schema

from contract.reasons import Check as Name
from devcluster.machine.bootstrap import CHECKOUT
from tests.health.fakes import fake_machine
from tests.health.fakes.nvml import Nvml


def check(name: Name, judge=None, look=lambda machine: 1) -> Check:
    return Check(name, look, judge or (lambda facts, machine: passes("well")), "x", "", "mend it", Action.RESET_GPU)


def verdicts(found: report.Report) -> dict[str, str]:
    return {result.check: result.finding.evidence for result in found.results}


def test_a_check_with_a_defect_is_unknown_and_harms_no_other_of_its_source(tmp_path: Path) -> None:
    def look(machine: Machine) -> int:
        return 1

    def divides(facts: int, machine: Machine) -> Finding:
        return passes(str(facts / 0))

    found = run.run(Machine(root=tmp_path), [check(Name.DNS, divides, look), check(Name.CLOCK, look=look)])
    assert verdicts(found) == {"dns": "ZeroDivisionError: division by zero", "clock": "well"}
    assert found.results[0].finding.verdict is Verdict.UNKNOWN
    assert found.results[0].action is Action.NONE


def test_a_source_is_read_once_for_all_its_checks(tmp_path: Path) -> None:
    def look(machine: Machine) -> int:
        with (tmp_path / "read").open("a") as file:
            file.write("x")
        return 1

    run.run(Machine(root=tmp_path), [check(name, look=look) for name in (Name.DNS, Name.CLOCK, Name.GRES)])
    assert (tmp_path / "read").read_text() == "x"


def test_a_check_that_is_switched_off_or_does_not_apply_is_skipped_with_the_reason(tmp_path: Path) -> None:
    def absent(machine: Machine) -> int:
        raise DoesNotApplyError("no such hardware")

    machine = Machine(dataclasses.replace(fake_machine.DECLARED, disabled=("dns",)), tmp_path)
    found = run.run(machine, [check(Name.DNS), check(Name.NVME, look=absent)])
    assert found.results == ()
    assert found.skipped == {"dns": run.SWITCHED_OFF, "nvme": "no such hardware"}
    assert found.verdict is Verdict.UNKNOWN, "nothing was looked at"


def test_a_result_says_what_to_do_and_a_pass_nothing(tmp_path: Path) -> None:
    def bad(facts: int, machine: Machine) -> Finding:
        return fails("bad", Action.RESTART_BM)

    found = run.run(Machine(root=tmp_path), [check(Name.DNS, bad), check(Name.CLOCK)])
    assert [(result.remedy, result.action) for result in found.results] == [
        ("mend it", Action.RESTART_BM),
        ("", Action.NONE),
    ]


def test_evidence_is_one_line_that_acts_on_no_terminal(tmp_path: Path) -> None:
    """A user chooses the names of processes, and of what a check could not find."""
    name = "train\x1b]0;root\x07\nPASS    gpus: 8"

    def absent(machine: Machine) -> int:
        raise DoesNotApplyError(name)

    found = run.run(
        Machine(root=tmp_path), [check(Name.DNS, lambda facts, machine: warns(name)), check(Name.NVME, look=absent)]
    )
    told = r"train\x1b]0;root\x07 PASS gpus: 8"
    assert [result.line for result in found.results] == [f"WARNING dns: {told}"]
    assert found.skipped == {"nvme": told}


def test_a_report_has_the_form_of_the_published_schema(tmp_path: Path) -> None:
    machine = fake_machine.build(tmp_path, {"/sys/class/nvme": None, "/proc/stat": "x"})
    said = json.loads(report.as_json(run.run(machine, catalogue.load(Applies.NODES, Applies.RDMA))))
    jsonschema.validate(said, schema.schema())
    assert {row["check"] for row in said["skipped"]} == {"nvme"}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**said, "more": 1}, schema.schema())


COST = """
import re, resource, sys
from pathlib import Path
from node_health import catalogue, report, run
from node_health.check import Machine
from tests.health.fakes import fake_machine
machine = Machine(fake_machine.DECLARED, Path(sys.argv[1]))
found = run.run(machine, catalogue.of_node(machine.declared))
report.as_json(found)
nvlink = next(str(result.finding.verdict) for result in found.results if result.check == "nvlink")
own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
# Not ru_maxrss, which a process takes over from the one that started it.
highest = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]
print(own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime, highest, nvlink)
"""


def test_a_healthy_node_is_checked_with_a_second_of_cpu_and_60_mib(
    tmp_path: Path, nvml_library: ctypes.CDLL, nvml: Nvml
) -> None:
    """With a fake NVML. CPU time stands for the wall's, which says how busy the machine is."""
    fake_machine.build(tmp_path)
    paths = os.pathsep.join([str(CHECKOUT), str(CHECKOUT / "health"), str(Path(pynvml.__file__).parent)])
    libraries = str(Path(nvml_library._name).parent)
    environment = {"PYTHONPATH": paths, "LD_LIBRARY_PATH": libraries, "FAKE_GPUS": str(nvml.file)}
    command = [sys.executable, "-c", COST, str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    seconds, kib, nvlink = done.stdout.split()
    assert float(seconds) < 1.0
    assert int(kib) < 60 * 1024
    assert nvlink == "PASS", "NVML was asked"
