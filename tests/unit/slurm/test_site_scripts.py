"""Scripts of slurm.scripts: checked before the plan, in ConfigMaps where they run, and started by slurm.conf."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from components import slurm_cluster
from components.config import Config, ConfigurationError, parse
from components.config.values.project_files import MOST_BYTES
from components.config.values.script_text import INTERPRETERS
from components.slurm import site_scripts
from components.slurm.conf import slurm_conf
from contract import names, paths
from contract.site_scripts import Kind
from tests.unit.effects.declared import body, container, pod
from tests.unit.samples import SMALL, changed
from tests.unit.slurm.conf_lines import lines

RUN = "#!/bin/sh\ntrue\n"


def script(name: str, text: str = RUN, **more: Any) -> dict[str, Any]:
    return {"name": name, "text": text, **more}


def with_scripts(scripts: Any, options: dict[str, Any] | None = None) -> dict[str, Any]:
    return changed("slurm", {"scripts": scripts, "options": options or {}})


def problems(scripts: Any, options: dict[str, Any] | None = None) -> list[str]:
    with pytest.raises(ConfigurationError) as refused:
        parse(with_scripts(scripts, options))
    return [str(problem).removeprefix("pulumi-slurm:slurm.") for problem in refused.value.problems]


def config_maps(config: Config) -> dict[str, dict[str, str]]:
    return {
        each.name: each.body["data"]
        for each in slurm_cluster.manifests(config)
        if each.kind == "ConfigMap" and each.name in site_scripts.PLACES
    }


def test_all_that_is_wrong_with_scripts_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dos.sh").write_bytes(b"#!/bin/sh\r\ntrue\r\n")
    assert problems(
        {
            "prolog": [
                script("scratch", "mkdir /scratch\n"),
                script("scratch"),
                script("a/b"),
                script("ruby", "#!/usr/bin/ruby\n"),
                script("empty", " \n"),
            ],
            "epilog": [{"name": "both", "text": RUN, "path": "x"}, {"name": "none"}, {"name": "dos", "path": "dos.sh"}],
            "taskProlog": [script("bare", "#!\ntrue\n"), script("zsh", "#!/bin/zsh\n", timeLimit="soon")],
            "prologslurmctld": [],
        }
    ) == [
        "scripts.epilog[0].path: got 'x'; want a file of the project, whose path begins at Pulumi.yaml: there is "
        f"nothing at {tmp_path}/x",
        'scripts.epilog[0]: got ["text", "path"]; want exactly one of text and path',
        "scripts.epilog[1]: got nothing; want exactly one of text and path",
        "scripts.epilog[2].path: got 'dos.sh'; want lines that end with a newline alone: the kernel would take a "
        "carriage return for part of a name",
        "scripts.prolog[0].text: got 'mkdir /scratch\\n'; want text that begins with `#!` and an interpreter, such as "
        "#!/bin/bash: Slurm starts it as a program",
        "scripts.prolog[1].name: got 'scratch'; want another name: prolog[0] has this one",
        "scripts.prolog[2].name: got 'a/b'; want a name without a slash: at most 40 lower-case letters, digits and "
        "inner hyphens, such as scratch",
        "scripts.prolog[3].text: got '#!/usr/bin/ruby\\n'; want `#!` and an interpreter that the slurm image has: one "
        "of bash, dash, perl, python3, sh in /bin or /usr/bin",
        "scripts.prolog[4].text: got ' \\n'; want text: an empty script does nothing, leave it out",
        "scripts.prologslurmctld: got []; want no such key (did you mean prologSlurmctld? known here: prolog, epilog, "
        "taskProlog, taskEpilog, prologSlurmctld, epilogSlurmctld, healthCheck)",
        "scripts.taskProlog[0].text: got '#!\\ntrue\\n'; want text that begins with `#!` and an interpreter, such as "
        "#!/bin/bash: Slurm starts it as a program",
        "scripts.taskProlog[1].timeLimit: got 'soon'; want a duration such as 90s, 30m or 2h",
    ]


@pytest.mark.parametrize(
    ("scripts", "options", "expected"),
    [
        ({"prolog": [script("a", "#!/bin/sh\n\0")]}, {}, "want text without NUL"),
        ({"prolog": [script("a", "#!/usr/bin/env\n")]}, {}, "want `#!` and an interpreter that the slurm image has"),
        ({"prolog": [script("a", "#!/usr/bin/env ruby\n")]}, {}, "want `#!` and an interpreter that the slurm image"),
        ({"prolog": [{"name": "a", "path": "x"}]}, {}, "prolog[0].path: got 'x'; want a file of the project"),
        ({"prolog": {"name": "a"}}, {}, "scripts.prolog: got"),
        (
            {
                "prolog": [script("a", RUN + "#" * (MOST_BYTES - 100))],
                "taskEpilog": [script("b", RUN + "#" * 100)],
            },
            {},
            "scripts.prolog[0].text: got '#!/bin/sh\\ntrue\\n####",
        ),
        ({"taskProlog": [script("a")]}, {"TaskProlog": "/opt/x"}, "want nothing beside slurm.scripts.taskProlog"),
        ({"taskEpilog": [script("a")]}, {"taskepilog": "/opt/x"}, "want nothing beside slurm.scripts.taskEpilog"),
        (
            {"epilog": [script("a", timeLimit="20s"), script("b", timeLimit="40s")]},
            {"PrologEpilogTimeout": 64},
            "options.PrologEpilogTimeout: got 64; want more than 64: the scripts of slurm.scripts.epilog may take",
        ),
        ({"epilog": [script("a")]}, {"EpilogTimeout": 32}, "options.EpilogTimeout: got 32; want more than 32: the scr"),
        ({"prologSlurmctld": [script("a")]}, {"PrologTimeout": 9}, "options.PrologTimeout: got 9; want more than 32"),
        ({}, {"Prolog": "/opt/x"}, "want another key: Prolog is set by this program, slurm.scripts has yours"),
        ({}, {"HealthCheckProgram": "/opt/x"}, "slurm.scripts has yours"),
    ],
)
def test_what_would_not_run_as_it_is_meant_is_refused(scripts: Any, options: dict[str, Any], expected: str) -> None:
    (problem,) = problems(scripts, options)
    assert expected in problem


def test_health_scripts_leave_time_for_the_next_check() -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse(with_scripts({"healthCheck": [script("a"), script("b")]}))
    (problem,) = refused.value.problems
    want = "want more than 36s, which a check may take with the scripts of slurm.scripts.healthCheck"
    assert str(problem) == f"pulumi-slurm:health.interval: got '30s'; {want}"
    parse(changed("health.interval", "37s", with_scripts({"healthCheck": [script("a"), script("b")]})))


def test_without_scripts_nothing_is_declared_for_them() -> None:
    config = parse(SMALL)
    assert config_maps(config) == {}
    started = {"TaskProlog", "TaskEpilog", "PrologSlurmctld", "EpilogSlurmctld", "BatchStartTimeout"}
    assert not started & lines(config).keys()


@pytest.mark.parametrize("kind", Kind)
def test_scripts_reach_the_place_where_they_run_in_their_order(kind: Kind) -> None:
    wanted = [script("second", timeLimit="5s"), script("first", "#!/bin/bash\n", timeLimit="1s")]
    found = config_maps(parse(with_scripts({kind.value: wanted})))
    place = next(name for name, kinds in site_scripts.PLACES.items() if kind in kinds)
    assert found == {
        place: {kind: "second 5\nfirst 1\n", f"{kind}.second": RUN, f"{kind}.first": "#!/bin/bash\n"},
    }


def test_a_script_may_be_a_file_of_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/scratch.sh").write_text(RUN)
    config = parse(with_scripts({"epilog": [{"name": "scratch", "path": "scripts/scratch.sh"}]}))
    assert config_maps(config)[names.NODE_SCRIPTS]["epilog.scratch"] == RUN


def test_checks_are_switched_off_without_a_new_pod() -> None:
    """A check that drains a whole fleet by mistake must not cost each node a restart."""
    before, off = parse(SMALL), parse(changed("health", {"checks": {"disabled": ["nvme", "gpu pcie"]}}))
    assert config_maps(off) == {names.NODE_SCRIPTS: {"disabledChecks": "nvme\ngpu pcie\n"}}
    assert config_maps(before) == {}
    template = body(before, "StatefulSet", "cpu")["spec"]["template"]
    assert body(off, "StatefulSet", "cpu")["spec"]["template"] == template


def test_thresholds_of_the_site_take_no_new_pod() -> None:
    own = [{"product": "NVIDIA A10", "numbers": {"gpu.smClock": 1695}}]
    before, after = parse(SMALL), parse(changed("health", {"thresholds": own}))
    template = body(before, "StatefulSet", "cpu")["spec"]["template"]
    assert body(after, "StatefulSet", "cpu")["spec"]["template"] == template


def test_an_interpreter_may_be_any_of_the_image() -> None:
    texts = [*(f"#!{path} -e\n" for path in INTERPRETERS), "#! /bin/sh\n", "#!/usr/bin/env bash\n"]
    wanted = [script(f"s{number}", text) for number, text in enumerate(texts)]
    parse(with_scripts({"prolog": wanted}))


def test_an_interpreter_of_a_job_is_the_jails_own() -> None:
    parse(with_scripts({"taskProlog": [script("a", "#!/usr/bin/ruby\n")]}))


def test_the_first_script_and_an_edited_one_take_no_new_pod() -> None:
    """Kubelet brings them to the pods that run."""
    configs = [parse(with_scripts({kind.value: scripts for kind in Kind})) for scripts in ([], [script("a")])]
    templates = [
        [each.body["spec"]["template"] for each in slurm_cluster.manifests(config) if each.kind == "StatefulSet"]
        for config in configs
    ]
    assert templates[0] == templates[1]
    edited = parse(with_scripts({kind.value: [script("a", "#!/bin/bash\n")] for kind in Kind}))
    assert slurm_conf.files(edited) == slurm_conf.files(configs[1]), "a reconfiguration for nothing"


def test_jobs_see_no_script_that_runs_outside_of_them() -> None:
    config = parse(SMALL)
    mounted = {
        volume["configMap"]["name"]: mount["mountPath"]
        for volume in pod(config, "StatefulSet", "cpu")["volumes"]
        for mount in container(config, "StatefulSet", "cpu")["volumeMounts"]
        if volume["name"] == mount["name"] and "configMap" in volume
    }
    assert mounted == {
        names.NODE_SCRIPTS: paths.ETC_SCRIPTS,
        names.TASK_SCRIPTS: paths.ETC_TASK_SCRIPTS,
    }, "the entry shows the second to jobs"
    assert {Kind.TASK_PROLOG, Kind.TASK_EPILOG} == set(site_scripts.PLACES[names.TASK_SCRIPTS])


def test_scripts_are_programs_in_their_pods() -> None:
    config = parse(SMALL)
    for name in ("cpu", names.CONTROLLER):
        volumes = [each["configMap"] for each in pod(config, "StatefulSet", name)["volumes"] if "configMap" in each]
        assert {each["defaultMode"] for each in volumes if each.get("optional")} == {0o555}


def test_slurm_starts_what_has_scripts_and_waits_for_it() -> None:
    wanted = [script("a", timeLimit="1m"), script("b", timeLimit="5s")]
    found = lines(parse(changed("health.interval", "2m", with_scripts({kind.value: wanted for kind in Kind}))))
    assert {key: found[key] for key in ("TaskProlog", "TaskEpilog", "PrologSlurmctld", "EpilogSlurmctld")} == {
        "TaskProlog": "/opt/slurm/libexec/task_prolog",
        "TaskEpilog": "/opt/slurm/libexec/task_epilog",
        "PrologSlurmctld": "/usr/sbin/site-prolog-slurmctld",
        "EpilogSlurmctld": "/usr/sbin/site-epilog-slurmctld",
    }
    before = lines(parse(SMALL))
    assert {key: found[key] for key in ("Prolog", "Epilog", "HealthCheckProgram")} == {
        key: before[key] for key in ("Prolog", "Epilog", "HealthCheckProgram")
    }, "ours run first, and start the site's"
    timeouts = ("BatchStartTimeout", "PrologTimeout", "HealthCheckTimeout")
    assert [found[key] for key in timeouts] == ["79", "99", "81"]
    own = lines(parse(with_scripts({"prolog": wanted}, {"BatchStartTimeout": 500})))
    assert own["BatchStartTimeout"] == "500"


def test_the_operator_holds_the_scripts_as_declared() -> None:
    config = parse(with_scripts({"prolog": [script("a")]}))
    role = body(config, "Role", names.OPERATOR)
    held = [rule for rule in role["rules"] if names.NODE_SCRIPTS in rule.get("resourceNames", ())]
    assert held
