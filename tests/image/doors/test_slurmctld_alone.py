"""A node takes its configuration, and files, from slurmctld alone: not from who speaks to slurmd in its name."""

import shlex

from slurm_node.accounts import profile_limits

from contract import names
from tests.image.entries import at_rest
from tests.image.networks import ADDRESS
from tests.image.pods import CONTROLLER, LOGIN, WORKER
from tests.image.small_cluster import ALICE, SmallCluster

FORGED = "MessageTimeout=78"
FORGER = f"""
set -e
mount -t tmpfs forger /run/slurmctld -o mode=755
mkdir /run/slurmctld/etc /run/slurmctld/state
cp /run/secrets/slurm/slurm.key /run/slurmctld/slurm.key
cp /run/secrets/slurm/jwt.key /run/slurmctld/jwt.key
cp /etc/slurm/*.conf /run/slurmctld/etc
cd /run/slurmctld/etc
sed -i s/^SlurmctldPort=.*/SlurmctldPort=7817/ slurm.conf
sed -i s,^StateSaveLocation=.*,StateSaveLocation=/run/slurmctld/state, slurm.conf
printf '%s\\n' {FORGED} 'NodeName=forged NodeAddr={ADDRESS} Feature=cpu' >> slurm.conf
chmod 600 ../*.key
chown -R 64030:64030 /run/slurmctld
export SLURM_CONF=/run/slurmctld/etc/slurm.conf SLURM_SACK_KEY=/run/slurmctld/slurm.key
exec setpriv --reuid=64030 --regid=64030 --clear-groups timeout 10 /opt/slurm/sbin/slurmctld -D -i
"""
"""A second slurmctld with the cluster's key: at its start it sends every node its own files."""


def starts(cluster: SmallCluster) -> int:
    return cluster.log(WORKER).count("slurmd version")


def test_a_configuration_that_is_sent_to_slurmd_is_not_taken(cluster: SmallCluster) -> None:
    before = starts(cluster)
    forged = cluster.pod(f"unshare --mount sh -c {shlex.quote(FORGER)}", name=CONTROLLER)
    assert "Running as primary controller" in forged.stderr, forged.stderr
    cluster.wait("slurmd heard the message", lambda: starts(cluster) > before, 30)
    found = cluster.pod(f"grep -rl {FORGED} /run/slurm/conf/ /var/spool/slurmd")
    assert found.stdout == "", "the message's files are the node's now"
    cluster.wait("the node takes jobs", lambda: cluster.ssh("srun -n1 echo ran").stdout == "ran\n", 60)


def test_a_client_of_ones_own_has_slurmd_write_no_file_into_the_pod(cluster: SmallCluster) -> None:
    conf = "mkdir -p ~/conf; cp /run/slurm/conf/slurm.conf ~/conf; export SLURM_CONF=~/conf/slurm.conf"
    cluster.let_root_submit()
    for place in ("/usr/local/sbin/sent", "/etc/sent"):
        sent = cluster.jail(f"{conf}; srun -n1 --bcast={place} /bin/true", name=LOGIN)
        assert "Read-only file system" in sent.stderr, "root's"
    for place in ("/tmp/sent", "/dev/shm/sent"):
        cluster.jail(f"{conf}; timeout 20 srun -n1 --bcast={place} /bin/true", user=ALICE, name=LOGIN)
        assert cluster.pod(f"ls {place}").returncode != 0
    assert f"refused REQUEST_FILE_BCAST from uid {ALICE}" in cluster.log(WORKER)
    for name in (WORKER, LOGIN):
        assert {"noexec", "size=16384k"} <= {*cluster.pod("findmnt -n -o OPTIONS /tmp", name=name).stdout.split(",")}


TAKE = f"""
import os, socket
os.setuid({ALICE})
for option in (None, socket.SO_REUSEADDR, socket.SO_REUSEPORT):
    taken = socket.socket()
    if option:
        taken.setsockopt(socket.SOL_SOCKET, option, 1)
    try:
        taken.bind(("0.0.0.0", {names.SLURMD_PORT}))
        taken.listen()
        print("taken")
    except OSError as error:
        print(error.strerror)
try:
    socket.create_connection(("127.0.0.1", {names.SLURMD_PORT}), 5)
except OSError as error:
    print(error.strerror)
"""


def test_a_job_cannot_take_slurmds_port_while_slurmd_is_away(cluster: SmallCluster) -> None:
    def is_idle() -> bool:
        return cluster.pod("/opt/slurm/bin/sinfo -h -o %T").stdout == "idle\n"

    # Slurm itself leaves a job for a minute whose end its slurmd did not see.
    cluster.wait("no job is on the node", is_idle, 60)
    with at_rest(cluster, WORKER):
        cluster.pod("kill -9 $(pidof slurmd)").check_returncode()
        tried = cluster.pod(f"python3 -c {shlex.quote(TAKE)}").stdout.splitlines()
    assert tried[:3] == ["Address already in use"] * 3
    cluster.wait("the node takes jobs", lambda: cluster.ssh("srun -n1 echo ran").stdout == "ran\n", 60)
    cluster.wait("no job is on the node", is_idle, 60)
    cluster.pod("pkill -9 -f 'slurm_node fetch'; kill -9 $(pidof slurmd)")
    tried = cluster.pod(f"python3 -c {shlex.quote(TAKE)}").stdout.splitlines()
    assert tried[:3] == ["Address already in use"] * 3, "nor while it starts"
    cluster.wait("the node takes jobs", lambda: cluster.ssh("srun -n1 echo ran").stdout == "ran\n", 60)


def test_sackd_listens_on_no_port(cluster: SmallCluster) -> None:
    inodes = "ls -l /proc/$(pidof -s sackd)/fd | grep -o 'socket:.[0-9]*' | tr -dc '0-9\\n'"
    tables = "cat /proc/net/tcp /proc/net/tcp6"
    found = cluster.pod(f"for inode in $({inodes}); do {tables} | grep -w $inode; done; {inodes}", name=LOGIN).stdout
    assert found.strip(), "it has sockets"
    assert ":" not in found, f"none of them is of TCP: {found}"


def test_start_up_files_that_run_before_the_job_have_limits(cluster: SmallCluster) -> None:
    cluster.jail("echo 'echo $(ulimit -v) $(ulimit -u) > ~/limits' >> ~/.profile", user=ALICE)
    cluster.batch("true", "--export=NONE")
    limits = cluster.jail("cat ~/limits", user=ALICE).stdout.split()
    assert limits == [str(profile_limits.MEMORY_MIB * 1024), str(profile_limits.PROCESSES)]


DEAF = """
import os, signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv("/bin/su", ["su", "-", "alice", "-c", "echo ran"])
"""
"""Its children are nobody's to wait for."""


def test_su_ends_with_its_child_whatever_becomes_of_it(cluster: SmallCluster) -> None:
    done = cluster.pod(f"timeout 20 python3 -c {shlex.quote(DEAF)}")
    assert (done.stdout, done.returncode) == ("ran\n", 1), "the child's outcome was not to be had"
    assert cluster.pod("timeout 20 su - alice -c 'exit 7'").returncode == 7
