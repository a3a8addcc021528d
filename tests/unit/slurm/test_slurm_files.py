"""Files of slurm.files: checked before the plan, in slurm.conf's words, and part of one marked configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from components.config import ConfigurationError, parse
from components.config.slurm_keys.plugin_names import CHOICES
from components.config.slurm_keys.slurm_options import ALLOWED
from components.config.values import slurm_files
from components.config.values.project_files import MOST_BYTES
from components.config.values.slurm_files import OURS, REFUSED, TAKEN
from components.slurm import configuration
from components.slurm.conf import slurm_conf
from contract import names
from tests.unit.samples import SMALL, changed
from tests.unit.slurm.conf_lines import lines

LUA = "function slurm_job_submit(job, parts, uid)\n  return slurm.SUCCESS\nend\n"
TREE = "- topology: t\n  cluster_default: true\n  tree:\n    switches:\n      - switch: s\n        nodes: cpu-[0-1]\n"


def with_files(files: Any, options: dict[str, Any] | None = None) -> dict[str, Any]:
    return changed("slurm", {"files": files, "options": options or {}})


def problems(files: Any, options: dict[str, Any] | None = None) -> list[str]:
    with pytest.raises(ConfigurationError) as refused:
        parse(with_files(files, options))
    return [str(problem).removeprefix("pulumi-slurm:slurm.") for problem in refused.value.problems]


def test_each_file_that_slurm_looks_for_is_in_one_of_three_tables() -> None:
    assert not TAKEN.keys() & OURS.keys()
    assert not REFUSED.keys() & (TAKEN.keys() | OURS.keys())
    made = slurm_conf.files(parse(SMALL)).keys() | {names.SLURMDBD_CONF, names.SLURM_KEY, names.JWT_KEY}
    assert made <= OURS.keys(), "a file of ours could be replaced"
    # src/common/fetch_config.c of 26.05: slurmd_config_files.
    sent = {
        *("acct_gather.conf", "cgroup.conf", "cli_filter.lua", "gres.conf", "helpers.conf", "job_container.conf"),
        *("mpi.conf", "namespace.yaml", "oci.conf", "plugstack.conf", "scrun.lua", "slurm.conf", "topology.conf"),
        "topology.yaml",
    }
    assert sent <= TAKEN.keys() | OURS.keys() | REFUSED.keys()
    assert {name for name, taken in TAKEN.items() if taken.sent} <= sent


def test_the_key_that_has_slurm_read_a_file_may_be_set() -> None:
    for taken in TAKEN.values():
        assert not taken.key or taken.key.lower() in ALLOWED
        assert taken.word not in CHOICES.get(taken.key.lower(), ()), "a word that runs a file needs that file"


def test_all_that_is_wrong_with_files_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "latin.lua").write_bytes(b"-- \xe9\n")
    (tmp_path / "huge.lua").write_text("x" * (MOST_BYTES + 1))
    assert problems(
        {
            "slurm.conf": "KillWait=1\n",
            "helpers.conf": "Feature=a\n",
            "job_submit.luo": LUA,
            "conf/mpi.conf": "x\n",
            "acct_gather.conf": "Include other\n",
            "job_submit.lua": " \n",
            "cli_filter.lua": {"path": "absent.lua"},
            "jobcomp.lua": {"path": "../x.lua"},
            "mpi.conf": {"path": "folder"},
            "rpc_queue.yaml": {"file": "x"},
            "topology.conf": {"path": "latin.lua"},
            "topology.yaml": {"path": "huge.lua"},
        }
    ) == [
        "files.acct_gather.conf: got 'Include other\\n'; want no line that begins with Include: slurmctld would read a "
        "file that is not declared",
        "files.acct_gather.conf: got 'Include other\\n'; want slurm.options.AcctGatherInterconnectType: Slurm reads "
        "acct_gather.conf with it alone",
        'files.cli_filter.lua: got {"path": "absent.lua"}; want a file of the project, whose path begins at '
        f"Pulumi.yaml: there is nothing at {tmp_path}/absent.lua",
        "files.conf/mpi.conf: got 'conf/mpi.conf'; want a name without folders, one of acct_gather.conf, "
        "cli_filter.lua, job_submit.lua, jobcomp.lua, mpi.conf, rpc_queue.yaml, topology.conf, topology.yaml; did you "
        "mean mpi.conf?",
        "files.helpers.conf: got 'helpers.conf'; want no helpers.conf: NodeFeaturesPlugins reads it, which runs "
        "programs on nodes, outside of the jail",
        "files.job_submit.lua: got ' \\n'; want text: an empty file says nothing, leave it out",
        "files.job_submit.luo: got 'job_submit.luo'; want one of acct_gather.conf, cli_filter.lua, job_submit.lua, "
        "jobcomp.lua, mpi.conf, rpc_queue.yaml, topology.conf, topology.yaml; did you mean job_submit.lua?",
        'files.jobcomp.lua: got {"path": "../x.lua"}; want a file of the project, whose path begins at Pulumi.yaml, '
        "without `..`",
        'files.mpi.conf: got {"path": "folder"}; want a file of the project, whose path begins at Pulumi.yaml: there '
        f"is a folder at {tmp_path}/folder",
        'files.rpc_queue.yaml: got {"file": "x"}; want the file\'s text, or {path: …} with a path of the project',
        "files.slurm.conf: got 'slurm.conf'; want another file: this program writes slurm.conf, slurm.options, "
        "partitions and nodeSets say what is in it",
        'files.topology.conf: got {"path": "latin.lua"}; want a file with UTF-8 text: '
        f"{tmp_path}/latin.lua has another byte at 3",
        f'files.topology.yaml: got {{"path": "huge.lua"}}; want a file of at most 512 KiB: {tmp_path}/huge.lua has '
        f"{MOST_BYTES + 1} bytes",
    ]


@pytest.mark.parametrize(
    ("files", "options", "expected"),
    [
        ({"mpi.conf": "a\0b"}, {}, "want text without NUL, at which Slurm takes a file to end"),
        ({"mpi.conf": "x" * (MOST_BYTES + 1)}, {}, "want at most 512 KiB: a ConfigMap holds no more"),
        ({"mpi.conf": 1}, {}, "want the file's text, or {path: …}"),
        ({"mpi.conf": None}, {}, "want the file's text, or {path: …}"),
        ({"mpi.conf": {"path": "/etc/passwd"}}, {}, "want a file of the project"),
        ({"mpi.conf": {"path": "a", "text": "b"}}, {}, "want the file's text, or {path: …}"),
        (["job_submit.lua"], {}, "files: got"),
        (
            {"mpi.conf": "x" * (MOST_BYTES - 1), "topology.yaml": TREE},
            {},
            "xxx…; want at most 512 KiB in all files together",
        ),
        (
            {"topology.yaml": TREE, "topology.conf": "SwitchName=s Nodes=cpu-0\n"},
            {"TopologyPlugin": "topology/tree"},
            "files.topology.conf: got 'SwitchName=s Nodes=cpu-0\\n'; want one of topology.yaml and topology.conf",
        ),
        ({"topology.conf": "SwitchName=s\n"}, {}, "want slurm.options.TopologyPlugin: topology/tree or topology/block"),
        (
            {"topology.conf": "x\n"},
            {"TopologyPlugin": "topology/flat"},
            "want slurm.options.TopologyPlugin: topology/t",
        ),
        ({"rpc_queue.yaml": "{}\n"}, {}, "want slurm.options.SlurmctldParameters: enable_rpc_queue"),
        (
            {"jobcomp.lua": LUA},
            {"JobCompType": "jobcomp/none"},
            "want slurm.options.JobCompType: jobcomp/lua, or none",
        ),
        ({}, {"JobSubmitPlugins": "lua"}, "want slurm.files with job_submit.lua too, which lua runs"),
        ({}, {"CliFilterPlugins": "user_defaults,lua"}, "want slurm.files with cli_filter.lua too"),
        ({}, {"JobCompType": "jobcomp/lua"}, "want slurm.files with jobcomp.lua too"),
        ({"job_submit.lua": LUA}, {"JobSubmitPlugins": "lua,partit"}, "JobSubmitPlugins: got 'lua,partit'; want"),
    ],
)
def test_what_slurm_would_not_read_as_it_is_meant_is_refused(
    files: Any, options: dict[str, Any], expected: str
) -> None:
    (problem,) = problems(files, options)
    assert expected in problem


@pytest.mark.parametrize(
    ("files", "options", "expected"),
    [
        ({"job_submit.lua": ""}, {"JobSubmitPlugins": "lua"}, "files.job_submit.lua: got ''; want text"),
        ({"acct_gather.conf": "x\n"}, {"AcctGatherInterconnectType": "a b"}, "want one value without spaces"),
    ],
)
def test_a_value_that_is_wrong_by_itself_causes_no_second_error(
    files: Any, options: dict[str, Any], expected: str
) -> None:
    (problem,) = problems(files, options)
    assert expected in problem


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    (problem,) = problems({"mpi.conf": {"path": "loop"}})
    assert "want a file" in problem


def test_text_and_path_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slurm").mkdir()
    (tmp_path / "slurm/ours.lua").write_text(LUA)
    by_path = parse(with_files({"job_submit.lua": {"path": "slurm/ours.lua"}}))
    assert slurm_conf.files(by_path) == slurm_conf.files(parse(with_files({"job_submit.lua": LUA})))


def test_files_travel_with_slurm_conf_and_change_its_mark() -> None:
    (declared,) = configuration.manifests(parse(with_files({"job_submit.lua": LUA, "topology.yaml": TREE})))
    assert declared.body["data"]["job_submit.lua"] == LUA
    assert declared.body["data"]["topology.yaml"] == TREE
    other = slurm_conf.files(parse(with_files({"job_submit.lua": f"{LUA}-- more\n", "topology.yaml": TREE})))
    assert other["slurm.conf"] != declared.body["data"]["slurm.conf"], "slurmctld would not be told of the change"


def test_a_script_is_loaded_by_its_presence_and_the_jails_check_comes_after_it() -> None:
    files = {"job_submit.lua": LUA, "cli_filter.lua": LUA, "jobcomp.lua": LUA}
    found = lines(parse(with_files(files)))
    assert found["JobSubmitPlugins"] == "lua,jail"
    assert (found["CliFilterPlugins"], found["JobCompType"]) == ("lua", "jobcomp/lua")
    bare = lines(parse(SMALL))
    assert bare["JobSubmitPlugins"] == "jail"
    assert not {"CliFilterPlugins", "JobCompType"} & bare.keys()


def test_the_words_of_a_sites_own_slurm_conf_are_taken_beside_its_scripts() -> None:
    options = {"JobSubmitPlugins": "require_timelimit,lua", "CliFilterPlugins": "lua,user_defaults"}
    options |= {"JobCompType": "jobcomp/lua"}
    found = lines(parse(with_files({"job_submit.lua": LUA, "cli_filter.lua": LUA, "jobcomp.lua": LUA}, options)))
    assert found["JobSubmitPlugins"] == "lua,jail,require_timelimit"
    assert found["CliFilterPlugins"] == "lua,user_defaults"
    assert found["JobCompType"] == "jobcomp/lua"


@pytest.mark.parametrize(
    ("text", "known"),
    [
        (TREE, ["t"]),
        ("---\n- {topology: a, flat: true}\n- {topology: 7, flat: true}\n- {flat: true}\n", ["a", "7"]),
        ("topology: only\nflat: true\n", ["only"]),
        ("- x\n", None),
        ("a: [\n", None),
        ("2026-13-45\n", None),
    ],
)
def test_the_topologies_of_a_file_are_those_that_partitions_may_name(text: str, known: list[str] | None) -> None:
    assert slurm_files.topologies(text) == known


def test_a_partition_names_a_topology_of_the_file() -> None:
    def named(name: str, text: str = TREE) -> dict[str, Any]:
        row = {"name": "main", "nodeSets": ["cpu"], "options": {"Topology": name}}
        return changed("partitions", [row], with_files({"topology.yaml": text}))

    assert "Topology=t" in slurm_conf.slurm_conf(parse(named("t"))).split()
    parse(named("t", "- x\n"))  # Slurm says what is wrong with such a file.
    with pytest.raises(ConfigurationError, match=r"options\.Topology: got 'T'; want the name of a topology .* are: t"):
        parse(named("T"))
