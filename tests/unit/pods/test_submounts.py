"""Submounts: what pods get for them, and which are refused before anything is touched."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from slurm_node.pod import settings

from components.config import ConfigurationError, parse
from components.slurm import node_set
from components.slurm.conf import slurm_conf
from contract import names
from tests.unit.effects import submount_effects
from tests.unit.effects.submount_effects import EVERY_KIND, EVERYWHERE, HOST_PATHS, mounts, pod
from tests.unit.samples import changed

PODS = ("cpu", names.LOGIN)


@pytest.mark.parametrize(
    ("path", "base", "value", "probe", "expected"),
    submount_effects.EFFECTS,
    ids=[f"{path}-{n}" for n, (path, *_) in enumerate(submount_effects.EFFECTS)],
)
def test_the_field_does_what_it_says(
    path: str, base: Mapping[str, Any], value: Any, probe: submount_effects.Probe, expected: Any
) -> None:
    assert probe(parse(changed(path, value, base))) == expected
    try:
        unchanged = probe(parse(base))
    except KeyError:
        return
    assert unchanged != expected, f"{path} changes nothing"


@pytest.mark.parametrize("name", PODS)
def test_the_entry_reads_what_the_pod_says_and_finds_its_volumes(name: str) -> None:
    config = parse(EVERYWHERE)
    environment = {each["name"]: each["value"] for each in pod(config, name)["containers"][0]["env"]}
    read = settings.read_jail(environment).submounts
    assert [each.path for each in read] == [each["path"] for each in EVERY_KIND]
    assert [each.path for each in read if each.everybodys] == ["/scratch", "/spill"]
    assert [each.path for each in read if each.read_only] == ["/datasets"]
    assert [each.memory_mib for each in read if each.memory_mib] == [64]
    assert [each.source for each in read if not each.memory_mib] == [each["mountPath"] for each in mounts(config, name)]
    assert {each["name"] for each in mounts(config, name)} <= {each["name"] for each in pod(config, name)["volumes"]}


@pytest.mark.parametrize("name", PODS)
def test_a_claim_that_two_submounts_show_is_one_volume(name: str) -> None:
    spec = pod(parse(EVERYWHERE), name)
    claims = [each["persistentVolumeClaim"]["claimName"] for each in spec["volumes"] if "persistentVolumeClaim" in each]
    assert claims.count("data") == 1
    assert len({each["name"] for each in spec["volumes"]}) == len(spec["volumes"])


def test_a_nodes_volume_is_not_a_claim_template_of_the_set() -> None:
    """Those are immutable: an edit would replace the set."""
    manifest = node_set.manifests(config := parse(EVERYWHERE), config.node_sets[0])[0]
    assert "volumeClaimTemplates" not in manifest.body["spec"]
    volume = next(each for each in pod(config, "cpu")["volumes"] if "ephemeral" in each)
    assert volume["ephemeral"]["volumeClaimTemplate"]["metadata"]["labels"][names.LABEL_NAME] == "slurm"


def test_without_submounts_nothing_is_said_of_them() -> None:
    spec = pod(parse(changed("cluster.name", "dev")), "cpu")
    assert "submounts" not in json.dumps(spec)


def test_slurm_gives_jobs_no_memory_that_files_of_others_may_hold() -> None:
    config = parse(
        changed("nodeSets.0.submounts", [{"path": "/a", "memory": "100Mi"}, {"path": "/b", "memory": "1Mi"}])
    )
    assert node_set.node_variable(config, config.node_sets[0])["memoryMib"] == 1024 - 256 - 101
    assert f"DefMemPerCPU={1024 - 256 - 101} " in slurm_conf.slurm_conf(config)


LOCAL = {"size": "1Gi"}
BAD: list[tuple[list[dict[str, Any]], str]] = [
    ([{"path": "/a", "local": LOCAL}, {"path": "/a", "local": LOCAL}], "{}[1].path: got '/a'; want each path once"),
    (
        [{"path": "/a/b", "local": LOCAL}, {"path": "/a", "local": LOCAL}],
        "{}[1].path: got '/a'; want paths that do not lie in one another: submounts[0] is /a/b",
    ),
    (
        [{"path": "/a", "local": LOCAL}, {"path": "/a/b/c", "memory": "1Mi"}],
        "{}[1].path: got '/a/b/c'; want paths that do not lie in one another: submounts[0] is /a",
    ),
    *(
        ([{"path": path, "local": LOCAL}], f"{{}}[0].path: got {path!r}; want an absolute path such as /data")
        for path in ("scratch", "/a/../etc", "/a/..", "/", "//a", "/a/", "/a b", "/a\nb", "/./a", "")
    ),
    *(
        ([{"path": path, "local": LOCAL}], f"{{}}[0].path: got {path!r}; want a path outside of {of}, which is the sys")
        for path, of in [
            *((f"/{name}", f"/{name}") for name in ("usr", "etc", "bin", "lib", "proc", "sys", "dev", "run", "tmp")),
            ("/lib64/x", "/lib64"),
            ("/usr/local/scratch", "/usr"),
            ("/dev/shm", "/dev"),
            ("/opt", "/opt/slurm"),
            ("/opt/slurm/lib", "/opt/slurm"),
            ("/var/spool/slurmd", "/var"),
        ]
    ),
    *(
        (
            [{"path": path, "local": LOCAL}],
            f"want a path outside of {of}, which is persistent: people's files are there",
        )
        for path, of in (("/home", "/home"), ("/home/alice", "/home"), ("/srv", "/srv"))
    ),
    ([{"path": "/a", "local": {"size": "10"}}], "{}[0].local.size: got '10'; want a Kubernetes quantity such as 64Gi"),
    ([{"path": "/a", "memory": "64"}], "{}[0].memory: got '64'; want a Kubernetes quantity such as 64Gi"),
    ([{"path": "/a", "emptyDir": "many"}], "{}[0].emptyDir: got 'many'; want a Kubernetes quantity such as 64Gi"),
    ([{"path": "/a", "memory": 64}], "{}[0].memory: got 64; want a Kubernetes quantity such as 64Gi"),
    (
        [{"path": "/a"}],
        "{}[0]: got nothing; want exactly one of local, emptyDir, memory, claim, hostPath: it says what stands at",
    ),
    ([{"path": "/a", "local": LOCAL, "memory": "1Mi"}], '{}[0]: got ["local", "memory"]; want exactly one of local'),
    ([{"path": "/a", "disk": "1Gi"}], "{}[0].disk: got '1Gi'; want no such key"),
    ([{"local": LOCAL}], "{}[0].path: got nothing; want this key: Where users find it, such as /scratch."),
    ([{"path": "/a", "local": "6Ti"}], "{}[0].local: got '6Ti'; want a map of keys to values"),
    ([{"path": "/a", "claim": {"name": "Data"}}], "{}[0].claim.name: got 'Data'; want the name of a Kubernetes object"),
    *(
        ([{"path": "/a", "claim": {"name": "d", "subPath": path}}], f"{{}}[0].claim.subPath: got {path!r}; want a path")
        for path in ("../x", "/x", "a/../../b", "")
    ),
    *(
        ([{"path": "/a", "claim": {"name": name}}], f"{{}}[0].claim.name: got {name!r}; want a claim of yours")
        for name in ("slurm-jail", "slurm-controller-state", "slurm-database")
    ),
    (
        [{"path": "/a", "hostPath": "/mnt/other"}],
        "{}[0].hostPath: got '/mnt/other'; want a path at or below one of jail.allowedHostPaths; there are: /mnt/raid",
    ),
    ([{"path": "/a", "hostPath": "/mnt/raid2"}], "want a path at or below one of jail.allowedHostPaths"),
    (
        [{"path": "/a", "hostPath": "/mnt/raid/../../etc"}],
        "{}[0].hostPath: got '/mnt/raid/../../etc'; want an absolute",
    ),
]


@pytest.mark.parametrize("at", ["nodeSets[0].submounts", "login.submounts"])
@pytest.mark.parametrize(("submounts", "expected"), BAD, ids=[str(number) for number in range(len(BAD))])
def test_a_wrong_submount_is_refused_with_its_path_and_what_would_be_right(
    at: str, submounts: list[dict[str, Any]], expected: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse(changed(at.replace("[0]", ".0"), submounts, HOST_PATHS))
    assert expected.format(f"pulumi-slurm:{at}") in str(refused.value)


def test_memory_beyond_the_pods_is_refused() -> None:
    submounts = [{"path": "/a", "memory": "700Mi"}, {"path": "/b", "memory": "200Mi"}]
    with pytest.raises(ConfigurationError) as refused:
        parse(changed("login.submounts", [{"path": "/a", "memory": "4Gi"}], changed("nodeSets.0.submounts", submounts)))
    assert [str(problem) for problem in refused.value.problems] == [
        'pulumi-slurm:login.submounts: got ["[0].memory: 4096Mi"]; want memory sizes that are together less than'
        " 4096Mi, login.resources.memory (4Gi)",
        'pulumi-slurm:nodeSets[0].submounts: got ["[0].memory: 700Mi", "[1].memory: 200Mi"]; want memory sizes that'
        " are together less than 768Mi, what resources.memory leaves beside resources.reservedMemory",
    ]


@pytest.mark.parametrize(
    ("allowed", "of"),
    [("/etc/x", "/etc"), ("/var", "/var/lib/kubelet"), ("/var/lib/kubelet/pods", "/var/lib/kubelet"), ("/run", "/run")],
)
def test_a_folder_that_is_the_node_itself_can_not_be_allowed(allowed: str, of: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"allowedHostPaths\[0\]: got '{allowed}'; want .* outside of {of}:"):
        parse(changed("jail.allowedHostPaths", [allowed]))


def test_an_allowed_host_path_alone_shows_nothing() -> None:
    assert "hostPath" not in json.dumps(pod(parse(HOST_PATHS), "cpu"))


def test_all_errors_of_submounts_are_told_at_once() -> None:
    wrong = [{"path": "/usr", "memory": "1"}, {"path": "a"}, {"path": "/home", "hostPath": "/etc"}]
    with pytest.raises(ConfigurationError) as refused:
        parse(changed("nodeSets.0.submounts", wrong))
    paths = [str(problem).split(":")[1] for problem in refused.value.problems]
    at = "nodeSets[0].submounts"
    assert sorted(paths) == [
        f"{at}[0].memory",
        f"{at}[0].path",
        f"{at}[1]",
        f"{at}[1].path",
        f"{at}[2].hostPath",
        f"{at}[2].path",
    ]
