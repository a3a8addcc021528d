"""Pods' programs and resources' schemas take what the program tells them."""

from __future__ import annotations

import hashlib
import importlib
import json
import os

import pytest
from slurm_node.__main__ import ROLES
from slurm_node.pod.settings import Accounting, read_accounting, read_jail, read_ldap, read_node, read_users

from components import slurm_cluster
from components.config import parse
from components.config.nodes.node_sets import Update, Window
from components.config.topologies import Place, Topology, TopologyType
from components.control import crd_policy
from components.control.crds import files
from components.jail import jail_population
from contract import names, paths
from devcluster.machine.bootstrap import CHECKOUT
from tests.unit.samples import DIRECTORY, GPU_SET, SSH_KEY, changed, config_with

CONFIG = parse(
    changed(
        "login.users",
        [{"name": "alice", "sshPublicKeys": [SSH_KEY], "sudo": True}],
        changed("nodeSets", [GPU_SET], changed("certificates.mode", "existing", changed("directory", DIRECTORY))),
    )
)
CONTAINERS = {
    (manifest.name, container["name"]): container
    for manifest in slurm_cluster.manifests(CONFIG)
    if manifest.kind in ("StatefulSet", "Deployment", "Job")
    for container in manifest.body["spec"]["template"]["spec"]["containers"]
}
MAINS = {name: container for (name, _), container in CONTAINERS.items()}


def test_every_role_that_pods_ask_for_is_one_of_the_entrys() -> None:
    ours = [container for (name, _), container in CONTAINERS.items() if name != names.DATABASE]
    asked = {argument for container in ours for argument in container.get("args", ())}
    probes = {
        tuple(container["readinessProbe"]["exec"]["command"])
        for container in ours
        if "exec" in container.get("readinessProbe", {})
    }
    daemons = {"controller", "accounting", "rest", "worker", "login", "directory"}
    assert asked == daemons | {"rehearsal", "proxy", "populate"}
    assert probes == {(paths.READY_PROBE, role) for role in daemons - {"controller"}}
    probe = CHECKOUT / f"images/slurm/rootfs{paths.READY_PROBE}"
    assert os.access(probe, os.X_OK)
    ready = MAINS[names.CONTROLLER]["readinessProbe"]["httpGet"]
    assert ready == {"path": "/readyz", "port": "slurmctld"}
    assert asked <= ROLES.keys()


@pytest.mark.parametrize("role", ROLES)
def test_each_role_of_the_entry_is_there(role: str) -> None:
    module, _, function = ROLES[role].partition(":")
    assert callable(getattr(importlib.import_module(f"slurm_node.{module}"), function))


def test_the_entry_reads_what_the_pods_say() -> None:
    worker = {each["name"]: each["value"] for each in MAINS["h100"]["env"]}
    node = read_node(worker)
    assert (node.controller, node.node_set, node.cpus) == ("slurm-controller:6817", "h100", 120)
    assert (node.memory_mib, node.gres) == (1500 * 1024 - 256, "gpu:h100:8")
    assert (node.weight, node.weight_bucket) == (1000, 8)
    jail = read_jail(worker)
    assert (jail.revision, jail.persistent, jail.tmp_mib) == ("ab" * 8, ("/home", "/root", "/srv"), 1024)
    controller = {each["name"]: each["value"] for each in MAINS[names.CONTROLLER]["env"]}
    assert read_accounting(controller) == Accounting(names.ACCOUNTING, names.SLURMDBD_PORT)
    assert read_accounting({}) is None
    populate = {each["name"]: each["value"] for each in MAINS[jail_population.job_name("ab" * 8)]["env"]}
    assert read_jail(populate).revision == jail.revision
    directory = {each["name"]: each["value"] for each in MAINS[names.LDAP]["env"]}
    followed = read_ldap(directory)
    assert (followed.uri, followed.bind, followed.own_authority) == (DIRECTORY["uri"], DIRECTORY["bindDn"], True)
    assert (followed.user_filter, followed.seconds) == ("(objectClass=posixAccount)", 300)
    assert read_jail(directory) == read_jail(populate)
    (user,) = read_users(populate)
    assert (user.name, user.ssh_public_keys, user.sudo) == ("alice", (SSH_KEY,), True)


def test_the_users_ids_are_the_images() -> None:
    containerfile = (CHECKOUT / "images" / "slurm" / "Containerfile").read_text()
    assert f"slurm:x:{names.SLURM_UID}:{names.SLURM_UID}:" in containerfile
    assert f"slurmrest:x:{names.SLURMREST_UID}:{names.SLURMREST_UID}:" in containerfile
    database = (CHECKOUT / "images" / "database" / "Containerfile").read_text()
    assert f"{names.DATABASE_OS_USER}:x:{names.DATABASE_UID}:{names.DATABASE_UID}:" in database
    assert f"USER {names.DATABASE_UID}:{names.DATABASE_UID}\n" in database


def test_a_changed_crd_has_a_new_edition() -> None:
    """Whoever changes a CRD raises its edition, and adds it here: an older program then leaves it alone."""
    editions = {"1": "2ed0c599c8c2d51b", "2": "59d4a184be0f770f", "3": "9fd36b4399f40ace", "4": "4fe1028406feeddd"}
    editions |= {"5": "308193427929c1b3", "6": "edf59450b3bf2391", "7": "f3d0ab4ef63cc60e", "8": "92dd8dfa055a9edf"}
    editions |= {"9": "e138e732760cf71c", "10": "43fffb7bfe7c86ac", "11": "43071799b545a2d8"}
    editions |= {"12": "c5ed5a1eeafb1d91", "13": "9fac04606585227e", "14": "012a744745400ac7"}
    editions |= {"15": "4c192034849c6349", "16": "16d90d6938fc79cd"}
    crds = files.definitions()
    (edition,) = {crd["metadata"]["annotations"][crd_policy.EDITION] for crd in crds}
    content = json.dumps([crd["spec"] for crd in crds], sort_keys=True)
    assert editions.get(edition) == hashlib.sha256(content.encode()).hexdigest()[:16]
    assert edition == max(editions, key=int)


def test_the_crds_are_those_of_the_resources_that_the_program_makes() -> None:
    crds = files.definitions()
    assert {(crd["spec"]["group"], crd["spec"]["names"]["kind"]) for crd in crds} == {
        (names.API_GROUP, "SlurmCluster"),
        (names.API_GROUP, "NodeSet"),
    }
    properties = {
        crd["spec"]["names"]["kind"]: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        for crd in crds
    }
    people = [{"name": "boss", "sshPublicKeys": [SSH_KEY], "admin": True}]
    accounts = {"mode": "mariadb", "accounts": [{"name": "physics"}]}
    check = {"name": "bandwidth", "partition": "main", "builtin": "memory-bandwidth", "least": 1}
    checks = [check, {**check, "name": "nightly", "schedule": "0 3 * * *"}]
    hanging = [{"name": "main", "nodeSets": ["cpu"], "hangs": {"after": "2h"}}]
    more = changed("partitions", hanging, changed("health.longChecks", checks, changed("accounting", accounts)))
    named = parse(changed("login", {"users": people, "sets": [{"name": "data"}]}, more))
    cluster = {**slurm_cluster.cluster_resource(named)["spec"], "revision": "x"}
    (declared, nightly), (hangs,) = cluster["longChecks"], cluster["hangs"]
    assert hangs.keys() == properties["SlurmCluster"]["properties"]["hangs"]["items"]["properties"].keys()
    keys = properties["SlurmCluster"]["properties"]["longChecks"]["items"]["properties"].keys()
    assert (declared.keys() | nightly.keys(), declared.keys() ^ nightly.keys()) == (keys, {"everySeconds", "schedule"})
    window = Window(start="Sun 03:00", duration="4h")
    more = {"update": Update(deadline="1h", window=window), "features": ["fast"], "feature_labels": ["zone"]}
    h100 = CONFIG.node_sets[0].model_copy(update={**more, "topology": [Place(name="fabric", unit="rack1")]})
    config = config_with("health.nodeConditions", [{"type": "KernelDeadlock"}])
    fabric = Topology(name="fabric", type=TopologyType.TREE, switches={"rack1": []})
    config = config.model_copy(update={"slurm": config.slurm.model_copy(update={"topologies": [fabric]})})
    node_set = slurm_cluster.node_set_resource(config, h100)["spec"]
    assert cluster.keys() == properties["SlurmCluster"]["properties"].keys()
    assert cluster["accounts"].keys() == properties["SlurmCluster"]["properties"]["accounts"]["properties"].keys()
    assert node_set.keys() == properties["NodeSet"]["properties"].keys()
    assert node_set["update"].keys() == properties["NodeSet"]["properties"]["update"]["properties"].keys()
