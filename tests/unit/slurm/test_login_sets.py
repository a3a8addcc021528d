"""Promises about further sets of login nodes: each by itself, and nothing of `login` changes for them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from slurm_node.pod.settings import read_login
from slurm_node.roles.login import sshd_options

from components import slurm_cluster
from components.config import ConfigurationError, parse
from components.control import credentials
from contract import names
from tests.unit.effects.declared import body, pod, variable
from tests.unit.samples import GENERATED, SMALL, changed, run_program

DATA, WEB = "slurm-login-data", "slurm-login-web"
SETS = [
    {"name": "data", "replicas": 2, "service": {"loadBalancerSourceRanges": ["192.0.2.0/24"]}, "ownHostKeys": True},
    {"name": "web", "allowGroups": ["portal"], "service": {"type": "NodePort", "nodePort": 30122}},
]
RAW = changed("login.sets", SETS)
CONFIG = parse(RAW)
MANIFESTS = {(each.kind, each.name): each for each in slurm_cluster.manifests(CONFIG)}
PODS = {
    name: each.body["spec"]["template"]["metadata"]["labels"]
    for (kind, name), each in MANIFESTS.items()
    if kind in ("StatefulSet", "Deployment")
}


def found(selector: dict[str, str]) -> set[str]:
    """Workloads whose pods a selector finds."""
    return {name for name, labels in PODS.items() if selector.items() <= labels.items()}


def with_login(**login: Any) -> dict[str, Any]:
    return changed("login", login)


def errors(raw: dict[str, Any]) -> list[str]:
    with pytest.raises(ConfigurationError) as refused:
        parse(raw)
    return [str(problem) for problem in refused.value.problems]


def test_a_further_set_changes_nothing_of_the_login_nodes_that_are_there() -> None:
    before = {(each.kind, each.name): each for each in slurm_cluster.manifests(parse(SMALL))}
    differing = {key for key, each in before.items() if MANIFESTS[key].body != each.body}
    policies = {("NetworkPolicy", f"slurm-{part}") for part in ("controller", "worker", "login", "accounting")}
    rights = {("Role", names.OPERATOR), ("ValidatingAdmissionPolicy", "slurm-operator-slurm")}
    # slurmctld looks srun's host up by its short name.
    assert differing == {*policies, *rights, ("StatefulSet", names.CONTROLLER)}
    assert before.keys() < MANIFESTS.keys()


def test_each_selector_finds_the_pods_of_its_own_set() -> None:
    for name in (names.LOGIN, DATA, WEB):
        assert found(MANIFESTS["Service", name].body["spec"]["selector"]) == {name}
        assert found(MANIFESTS["StatefulSet", name].body["spec"]["selector"]["matchLabels"]) == {name}
        assert found(MANIFESTS["NetworkPolicy", name].body["spec"]["podSelector"]["matchLabels"]) == {name}
    assert found(MANIFESTS["Service", names.LOGINS].body["spec"]["selector"]) == {names.LOGIN}
    assert found(MANIFESTS["Service", names.LOGIN_SETS].body["spec"]["selector"]) == {DATA, WEB}


def test_slurmctld_finds_login_nodes_of_sets_by_their_short_names() -> None:
    searches = pod(CONFIG, "StatefulSet", names.CONTROLLER)["dnsConfig"]["searches"]
    assert searches[1:] == ["slurm-logins.slurm.svc.cluster.local", "slurm-set-logins.slurm.svc.cluster.local"]
    assert body(CONFIG, "StatefulSet", DATA)["spec"]["serviceName"] == names.LOGIN_SETS


def _sources(policy: str, port: int) -> list[Any]:
    rules = MANIFESTS["NetworkPolicy", policy].body["spec"]["ingress"]
    return [peer for rule in rules if rule.get("ports", [{}])[0].get("port") == port for peer in rule["from"]]


def test_each_set_takes_ssh_from_its_own_addresses() -> None:
    everywhere = [{"ipBlock": {"cidr": "0.0.0.0/0"}}, {"ipBlock": {"cidr": "::/0"}}]
    assert _sources(names.LOGIN, names.SSH_PORT) == everywhere
    assert _sources(DATA, names.SSH_PORT) == [{"ipBlock": {"cidr": "192.0.2.0/24"}}]
    assert _sources(WEB, names.SSH_PORT) == everywhere


@pytest.mark.parametrize(
    ("target", "port"),
    [
        ("slurm-controller", names.SLURMCTLD_PORT),
        ("slurm-worker", names.SLURMD_PORT),
        ("slurm-worker", names.SRUN_PORT_FIRST),
        (names.LOGIN, names.SRUN_PORT_FIRST),
        (DATA, names.SRUN_PORT_FIRST),
        ("slurm-accounting", names.SLURMDBD_PORT),
    ],
)
def test_a_login_node_of_a_set_reaches_what_a_login_node_reaches(target: str, port: int) -> None:
    sources = [peer["podSelector"]["matchLabels"] for peer in _sources(target, port) if "podSelector" in peer]
    assert {names.LOGIN, DATA, WEB} <= {name for selector in sources for name in found(selector)}


def test_slurms_daemons_reach_srun_on_a_login_node_of_a_set() -> None:
    sources = [peer["podSelector"]["matchLabels"] for peer in _sources(DATA, names.SRUN_PORT_FIRST)]
    assert {"cpu", names.CONTROLLER} <= {name for selector in sources for name in found(selector)}


def test_programs_on_a_login_node_of_a_set_reach_no_metadata_service_and_no_kubelet() -> None:
    egress = [MANIFESTS["NetworkPolicy", name].body["spec"].get("egress") for name in (names.LOGIN, DATA, WEB)]
    assert egress[0]
    assert egress[1:] == [egress[0]] * 2


def test_the_operator_may_restore_each_set_and_is_told_of_it() -> None:
    assert slurm_cluster.cluster_resource(CONFIG)["spec"]["loginSets"] == [DATA, WEB]
    assert "loginSets" not in slurm_cluster.cluster_resource(parse(SMALL))["spec"]
    policy = json.dumps(MANIFESTS["ValidatingAdmissionPolicy", "slurm-operator-slurm"].body)
    by_name = {
        (resource, name)
        for rule in MANIFESTS["Role", names.OPERATOR].body["rules"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", ())
    }
    for name in (DATA, WEB):
        assert f"statefulsets.apps/{name}" in policy
        assert {("services", name), ("networkpolicies", name)} <= by_name
        assert all(MANIFESTS[kind, name].held for kind in ("StatefulSet", "Service", "NetworkPolicy"))


def test_what_a_set_leaves_out_is_as_in_login() -> None:
    login = {
        "replicas": 3,
        "resources": {"cpu": "2", "memory": "8Gi"},
        "limits": {"processesPerUser": 77},
        "grace": "9m",
        "passwords": True,
        "allowGroups": ["staff"],
        "pod": {"labels": {"team": "hpc"}},
        "submounts": [{"path": "/scratch", "emptyDir": "1Gi"}],
        "service": {"annotations": {"cloud.example/internal": "true"}, "loadBalancerSourceRanges": ["192.0.2.0/24"]},
    }
    config = parse(with_login(**login, sets=[{"name": "data"}]))
    first, second = (body(config, "StatefulSet", name)["spec"] for name in (names.LOGIN, DATA))
    assert first["replicas"] == second["replicas"] == 3
    assert first["template"]["spec"] == second["template"]["spec"]
    assert second["template"]["metadata"]["labels"]["team"] == "hpc"
    services = [body(config, "Service", name) for name in (names.LOGIN, DATA)]
    assert services[0]["metadata"]["annotations"] == services[1]["metadata"]["annotations"]
    ranges = [service["spec"]["loadBalancerSourceRanges"] for service in services]
    assert ranges == [["192.0.2.0/24"]] * 2


def test_a_node_port_is_one_services_and_not_inherited() -> None:
    config = parse(with_login(service={"type": "NodePort", "nodePort": 30022}, sets=[{"name": "data"}]))
    ports = [body(config, "Service", name)["spec"]["ports"][0].get("nodePort") for name in (names.LOGIN, DATA)]
    assert ports == [30022, None]
    assert body(config, "Service", DATA)["spec"]["type"] == "NodePort"


def test_one_list_of_a_set_replaces_the_other_of_login() -> None:
    """sshd lets in those who are in both lists. A set with users of its own would let in fewer than it names."""
    config = parse(with_login(allowGroups=["staff"], sets=[{"name": "data", "allowUsers": ["alice"]}]))
    said = variable(config, "StatefulSet", DATA, "SLURM_LOGIN")
    assert (said.get("allowUsers"), said.get("allowGroups")) == (["alice"], None)


@pytest.mark.parametrize(
    ("keys", "options"),
    [
        ({}, []),
        ({"allowUsers": ["alice", "bob"]}, ["-o", "AllowUsers=alice bob"]),
        ({"allowGroups": ["lab"]}, ["-o", "AllowGroups=lab"]),
    ],
)
def test_sshd_lets_in_those_whom_the_set_names(keys: dict[str, Any], options: list[str]) -> None:
    config = parse(changed("login.sets", [{"name": "data", **keys}]))
    environment = {each["name"]: each["value"] for each in pod(config, "StatefulSet", DATA)["containers"][0]["env"]}
    assert sshd_options(read_login(environment)) == options


def _host_keys(raw: dict[str, Any], name: str) -> str:
    return str(pod(parse(raw), "StatefulSet", name)["volumes"][2]["secret"]["secretName"])


def test_a_set_has_the_host_keys_of_login_unless_it_has_its_own() -> None:
    sets = [{"name": "data", "ownHostKeys": True}, {"name": "web", "existingSshSecret": "theirs"}, {"name": "x"}]
    raw = changed("credentials.existingSshSecret", "mine", changed("login.sets", sets))
    assert [_host_keys(raw, name) for name in (names.LOGIN, DATA, WEB, "slurm-login-x")] == [
        *("mine", "slurm-login-data-host-keys", "theirs", "mine"),
    ]
    assert credentials.generated_files(parse(raw))["slurm-login-data-host-keys"] == names.SSH_HOST_KEY_FILES
    engine, _ = run_program(raw)
    made = engine.one("Keys", "login-data-ssh-keys")
    assert made.inputs["purpose"] == "ssh"
    assert "data" in made.request.additionalSecretOutputs
    secret = engine.one("Secret", "slurm-login-data-host-keys")
    assert secret.inputs["data"] == GENERATED["ssh"]
    assert secret.is_secret("data")


def test_a_set_is_a_resource_of_its_own_that_no_other_is_replaced_for() -> None:
    before, after = ({each.urn: each for each in run_program(raw)[0].registered} for raw in (SMALL, RAW))
    assert before.keys() < after.keys()
    new = {urn.rpartition("::")[2]: each.type for urn, each in after.items() if urn not in before}
    ours = {name: kind for name, kind in new.items() if not kind.startswith("kubernetes:")}
    assert ours == {
        "login-set-data": "pulumi-slurm:index:LoginSet",
        "login-set-web": "pulumi-slurm:index:LoginSet",
        "login-sets": "pulumi-slurm:index:LoginSets",
        "login-data-ssh-keys": "pulumi-python:dynamic/pulumi-slurm:Keys",
    }


def test_a_set_uses_a_root_only_when_it_is_complete_and_comes_before_the_cluster() -> None:
    engine, _ = run_program(RAW)
    job = next(each for each in engine.kubernetes() if each.inputs["kind"] == "Job")
    last = engine.one("SlurmCluster", "cluster")
    for name in (DATA, WEB):
        assert job.urn in engine.one("StatefulSet", name).dependencies
        assert engine.one("StatefulSet", name).urn in last.dependencies
    assert engine.one("Service", names.LOGIN_SETS).urn in last.dependencies


def test_outputs_say_where_each_set_answers() -> None:
    port = {"type": "NodePort", "nodePort": 30122}
    raw = with_login(service={"type": "NodePort", "nodePort": 30022}, sets=[{"name": "data", "service": port}])
    _, outputs = run_program(raw)
    assert outputs["login"] == "<any Kubernetes node>:30022"
    assert outputs["sets"] == {"data": "<any Kubernetes node>:30122"}


def test_names_of_the_longest_set_are_short_enough_for_kubernetes() -> None:
    """Kubernetes writes a StatefulSet's name, and up to 11 characters behind it, into a label of its pods."""
    config = parse(changed("login.sets", [{"name": "d" * 40}]))
    name = config.login.nodes_of_sets[0].object_name
    assert len(name) + 11 <= 63
    assert isinstance(body(config, "StatefulSet", name), dict)


def test_all_that_is_wrong_with_sets_is_told_at_once() -> None:
    login = {
        "resources": {"memory": "4Gi"},
        "limits": {"memoryPerUser": "3Gi"},
        "service": {"type": "NodePort", "nodePort": 30022},
        "sets": [
            {"name": "data", "service": {"type": "NodePort", "nodePort": 30022}, "grace": "soon"},
            {"name": "data", "limits": {"memoryPerUser": "5Gi"}, "allowUsers": ["alice"], "allowGroups": ["lab"]},
            {"name": "small", "resources": {"memory": "2Gi"}, "ownHostKeys": True, "existingSshSecret": "x"},
            {"replicas": -1},
        ],
    }
    said = errors(with_login(**login))
    at = "pulumi-slurm:login.sets"
    assert [problem.partition(": got")[0] for problem in said] == [
        f"{at}[0].grace",
        f"{at}[0].service.nodePort",
        f"{at}[1].allowGroups",
        f"{at}[1].limits.memoryPerUser",
        f"{at}[1].name",
        f"{at}[2].existingSshSecret",
        f"{at}[2].resources.memory",
        f"{at}[3].name",
        f"{at}[3].replicas",
    ]


def test_nobody_opens_a_set_to_everybody_by_leaving_a_key_out() -> None:
    ranges = {"loadBalancerSourceRanges": ["192.0.2.0/24"]}

    def raw(**service: Any) -> dict[str, Any]:
        return with_login(service=ranges, sets=[{"name": "data", "service": service}])

    (said,) = errors(raw(type="NodePort"))
    assert said.startswith("pulumi-slurm:login.sets[0].service.loadBalancerSourceRanges: got nothing; want a list, []")
    for right in ({"type": "NodePort", "loadBalancerSourceRanges": []}, ranges):
        assert parse(raw(**right)).login.sets


def test_site_volumes_and_submounts_of_a_set_are_checked_as_those_of_login() -> None:
    secret = {"volumes": [{"name": "keys", "secret": "theirs"}]}
    submounts = [{"path": "/home/x", "emptyDir": "1Gi"}]
    sets = [
        {"name": "data", "existingSshSecret": "theirs", "pod": secret},
        {"name": "web", "submounts": submounts},
    ]
    said = errors(changed("login.sets", sets))
    assert said[0].startswith("pulumi-slurm:login.sets[0].pod.volumes[0].secret: got 'theirs'; want one of yours")
    assert said[1].startswith("pulumi-slurm:login.sets[1].submounts[0].path: got '/home/x'; want a path outside of")
