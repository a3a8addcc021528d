"""Users' commands on a login node follow slurmctld's configuration, which nobody sends there."""

from slurm_node.slurm.config_renewal import EVERY_SECONDS

from tests.image.pods import LOGIN
from tests.image.small_cluster import SmallCluster

CONF = "/run/slurm/conf"


def test_what_slurmctld_has_comes_to_the_login_node_while_commands_go_on(cluster: SmallCluster) -> None:
    daemon = cluster.pod("pidof -s sackd", name=LOGIN).stdout
    spoil = f"sed -i s/spank_jail/no_such_plugin/ {CONF}/plugstack.conf; touch {CONF}/old.conf"
    assert cluster.pod(spoil, name=LOGIN).returncode == 0
    assert "no_such_plugin" in cluster.ssh("srun -n1 true").stderr

    cluster.wait("commands work again", lambda: cluster.ssh("srun -n1 true").returncode == 0, EVERY_SECONDS + 30)
    assert cluster.pod(f"ls {CONF}/old.conf", name=LOGIN).returncode != 0
    assert cluster.pod("pidof -s sackd", name=LOGIN).stdout == daemon
    assert "took slurmctld's newest configuration" in cluster.log(LOGIN)


def test_a_changed_configuration_comes_by_itself(cluster: SmallCluster) -> None:
    cluster.append("slurm.conf", "MessageTimeout=77\n")
    assert cluster.pod("/opt/slurm/bin/scontrol reconfigure").returncode == 0
    asked = f"grep MessageTimeout=77 {CONF}/slurm.conf"
    cluster.wait("the option", lambda: cluster.pod(asked, name=LOGIN).returncode == 0, EVERY_SECONDS + 30)
