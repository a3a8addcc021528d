"""People in the stack's config have login nodes for a group, accounts that previews compare, QOS, and crontabs."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from devcluster.cli.login import Login
from devcluster.node import node_cli
from tests.e2e import preemption

SET = {
    "name": "lab",
    "replicas": 1,
    "resources": {"cpu": "50m", "memory": "256Mi"},
    "allowGroups": ["lab"],
    "ownHostKeys": True,
}
POD = {"labels": {"example.com/team": "lab"}, "env": {"SITE_NAME": "north"}}
SERVICE = "slurm-login-lab"
QOS = [{"name": "short", "priority": 5}, *preemption.QOS]
ACCOUNTS = [{"name": "physics", "fairshare": 20}]
CRONTAB = "* * * * * echo $(id -un) $(stat -c %i /) > cron-ran"
"""Within the first minute of the tests."""
READ = ["get", "slurmcluster", "dev", "-o", "jsonpath={.status.accounts.set.accounts.physics.Fairshare}"]


@pytest.fixture(scope="module")
def declared(slurm):
    """The dev stack with the set, a QOS and an account, and all of it removed again."""
    file = slurm.cluster.stack.config_file
    before = file.read_text()
    config = yaml.safe_load(before)["config"]
    level = "sacctmgr -nP show user admin format=adminlevel"
    slurm.wait("the administrator is appointed", lambda: slurm.sh(level).ok() == "Administrator", 120)
    slurm.sh("sacctmgr -i add account theirs", user="admin").ok()
    slurm.sh("sudo groupadd --force lab && sudo usermod -aG lab admin").ok()
    sidecar = {"name": "beside", "image": config["pulumi-slurm:images"]["operator"], "command": ["sleep", "infinity"]}
    config["pulumi-slurm:login"]["sets"] = [{**SET, "pod": {**POD, "sidecars": [sidecar]}}]
    config["pulumi-slurm:accounting"] |= {"qos": QOS, "accounts": ACCOUNTS, "removal": "delete"}
    config["pulumi-slurm:checks"] = {**config.get("pulumi-slurm:checks", {}), "accounts": True}
    config["pulumi-slurm:partitions"].append(preemption.HIGH)
    slurm_conf = config.get("pulumi-slurm:slurm", {})
    more = {**preemption.OPTIONS, "PreemptType": "preempt/qos", "ScronParameters": "enable"}
    options = {**slurm_conf.get("options", {}), **more}
    config["pulumi-slurm:slurm"] = {**slurm_conf, "options": options}
    try:
        file.write_text(yaml.safe_dump({"config": config}, sort_keys=False))
        slurm.pulumi("up", "--yes", "--skip-preview").ok()
        slurm.wait("Slurm's crontabs", lambda: slurm.sh(f"echo '{CRONTAB}' | scrontab", user="admin").ok() == "")
        yield config
    finally:
        slurm.sh("scrontab -r; rm -f cron-ran", user="admin")
        file.write_text(before)
        slurm.pulumi("up", "--yes", "--skip-preview").ok()
        slurm.sh("sudo gpasswd -d admin lab; sudo groupdel lab").ok()
        # Without accounting.removal, what was declared stays.
        declared = ",".join(one["name"] for one in QOS)
        slurm.sh(f"sacctmgr -i delete account theirs physics && sacctmgr -i delete qos {declared}", user="admin").ok()
    assert slurm.kubectl("get", "service", SERVICE).status != 0
    assert slurm.kubectl("get", "statefulset", SERVICE).status != 0


@pytest.fixture
def lab(slurm, declared, tmp_path) -> Login:
    """The way into the set's login node, with the key of the dev cluster's users."""
    (service,) = slurm.get("service", SERVICE)["spec"]["ports"]
    (tmp_path / "id_ed25519").symlink_to(slurm.cluster.login.key)
    login = Login(tmp_path)
    login.remember(node_cli.address(slurm.cluster.instance), service["nodePort"])
    return login


def host_keys(login: Login) -> set[str]:
    """The keys by which SSH knows the hosts there."""
    return {line.split()[2] for line in Path(login.folder, "known_hosts").read_text().splitlines()}


def test_a_set_of_login_nodes_lets_its_group_in_by_a_service_and_host_keys_of_its_own(slurm, lab):
    addresses = slurm.cluster.stack.outputs()["loginSetAddresses"]
    assert addresses["lab"].endswith(f":{lab.address()[1]}"), addresses
    assert lab.address() != slurm.cluster.login.address()
    assert slurm.at(lab, "hostname; id -un", user="admin").ok().split() == [f"{SERVICE}-0", "admin"]
    refused = slurm.at(lab, "hostname")
    assert (refused.status, "Permission denied" in refused.stderr) == (255, True), refused
    assert slurm.sh("hostname").ok() == "slurm-login-0", "login itself lets everybody in"
    assert not host_keys(lab) & host_keys(slurm.cluster.login)


def test_a_set_of_login_nodes_has_the_sites_own_parts_of_a_pod(slurm, declared):
    pod = f"{SERVICE}-0"
    assert slurm.get("pod", pod)["metadata"]["labels"]["example.com/team"] == "lab"
    assert slurm.on_pod(pod, "echo $SITE_NAME").ok() == "north"
    assert slurm.kubectl("exec", pod, "-c", "beside", "--", "id", "-u").ok() == "65534"


def test_jobs_start_from_a_set_of_login_nodes(slurm, lab):
    assert slurm.at(lab, "srun -N2 hostname | sort", user="admin").ok().split() == ["cpu-0", "cpu-1"]
    assert slurm.at(lab, "sbatch --wait -Q -o ran --wrap hostname && cat ran", user="admin").ok().startswith("cpu-")
    slurm.sh("rm ~/ran", user="admin").ok()


@pytest.mark.parametrize("mode", preemption.MODES)
def test_a_job_of_a_qos_gives_way_to_one_whose_qos_preempts_it(slurm, declared, mode):
    preempts = "sacctmgr -nP show qos first format=preempt"
    slurm.wait("slurmdbd has the QOS", lambda: {*slurm.sh(preempts).ok().split(",")} == {*preemption.MODES}, 120)
    preemption.by_qos(slurm, mode)


def test_a_preview_tells_what_becomes_of_accounts_in_slurmdbd(slurm, declared):
    slurm.wait("the operator has read the account", lambda: slurm.kubectl(*READ).stdout == "20", 150)
    shown = slurm.sh("sacctmgr -nP show assoc format=account,user,share", user="admin").ok()
    assert "physics||20" in shown.split()
    file = slurm.cluster.stack.config_file
    before = file.read_text()
    accounts = [{"name": "physics", "fairshare": 5}, {"name": "optics", "parent": "physics"}]
    accounting = {**declared["pulumi-slurm:accounting"], "qos": [], "accounts": accounts}
    try:
        edited = {"config": {**declared, "pulumi-slurm:accounting": accounting}}
        file.write_text(yaml.safe_dump(edited, sort_keys=False))
        told = " ".join(slurm.pulumi("preview").ok().split())
    finally:
        file.write_text(before)
    assert "+ account optics: Parent=physics" in told, told
    assert "~ account physics: Fairshare 20 → 5" in told
    assert "warning: accounting.accounts[0].fairshare does not change which job starts first" in told
    assert "- QOS short: deleted, unless jobs or records of others need it" in told
    assert "= account theirs: stays" in told
    assert "accounting: what slurmdbd has" not in slurm.pulumi("preview").ok(), "without a change nothing is told"


def test_a_crontab_of_slurms_runs_in_the_jail(slurm, declared):
    assert CRONTAB in slurm.sh("scrontab -l", user="admin").ok()
    root = slurm.sh("stat -c %i /").ok()
    slurm.wait("its minute", lambda: slurm.sh("cat cron-ran", user="admin").ok() == f"admin {root}", 150)
