"""A login node whose jail breaks: nobody gets in, whoever comes reads why, it is not Ready, and recovers by itself.

First the PAM module is alone: the entry, which tries the jail every few seconds, is at rest. Then the entry knows.
"""

import subprocess
from collections.abc import Iterator

import pytest

from tests.image.entries import at_rest
from tests.image.jail.breaks import BREAKS, Break
from tests.image.networks import ADDRESS
from tests.image.pods import LOGIN
from tests.image.small_cluster import SmallCluster

REFUSAL = "This login node can't enter the jail: "
OUTSIDE = "/tmp/ran-outside"
"""The pod's own /tmp."""
COMMAND = f"touch {OUTSIDE}; echo ran outside"
PROBE = "/usr/libexec/slurm-node/ready login"
PAM_MODULE = "/usr/lib/x86_64-linux-gnu/security/pam_jail.so"
LOGIN_BREAKS: dict[str, Break] = {
    name: BREAKS[name]
    for name in ("not mounted", "half built", "read-only", "no devices", "no shell", "a mount point is missing")
}
WITHOUT_USERS = "not mounted"
"""The users and their keys are away with the jail: sshd itself refuses."""


def client(cluster: SmallCluster, program: str) -> list[str]:
    """The client as people have it: with an ERROR level it would keep the server's words to itself."""
    return [word.replace("LogLevel=ERROR", "LogLevel=INFO") for word in cluster.client(program)]


def attempts(cluster: SmallCluster) -> dict[str, subprocess.CompletedProcess[str]]:
    """Every kind of session, by name."""
    target = f"alice@{ADDRESS}"
    lines = {
        "command": [*client(cluster, "ssh"), target, COMMAND],
        "terminal": [*client(cluster, "ssh"), "-tt", target, COMMAND],
        "sftp": [*client(cluster, "sftp"), "-b", "-", target],
    }
    return {
        kind: subprocess.run(line, input="ls /\n", capture_output=True, text=True, timeout=60, check=False)
        for kind, line in lines.items()
    }


def probe(cluster: SmallCluster) -> subprocess.CompletedProcess[str]:
    return cluster.pod(PROBE, name=LOGIN)


@pytest.fixture
def mended(cluster: SmallCluster) -> Iterator[None]:
    """Afterwards the node works again by itself."""
    yield
    cluster.wait("the login node is ready", lambda: probe(cluster).returncode == 0, 90)
    assert cluster.ssh("echo works again").stdout == "works again\n"
    said = attempts(cluster)["command"]
    assert said.stdout == "ran outside\n", "the witness: where it is let in, the line does run"
    assert REFUSAL not in said.stderr
    assert cluster.ssh(f"rm {OUTSIDE}").returncode == 0


@pytest.mark.usefixtures("mended")
@pytest.mark.parametrize("name", LOGIN_BREAKS)
def test_a_broken_login_node_lets_nobody_in_says_why_and_recovers(cluster: SmallCluster, name: str) -> None:
    broken = LOGIN_BREAKS[name]
    try:
        with at_rest(cluster, LOGIN):
            spoiled = cluster.pod(f"set -e; {broken.breaks}", name=LOGIN)
            assert spoiled.returncode == 0, spoiled.stderr
            by_pam = attempts(cluster)
        cluster.wait("the node says why", lambda: broken.reason in probe(cluster).stderr, 60)
        known = attempts(cluster)
        written = cluster.pod(f"ls {OUTSIDE}", name=LOGIN)
    finally:
        done = cluster.pod(f"set -e; {broken.mends}", name=LOGIN)
        assert done.returncode == 0, done.stderr
    for kind, refused in [*by_pam.items(), *known.items()]:
        assert refused.returncode != 0, kind
        assert "ran outside" not in refused.stdout, kind
        assert "etc" not in refused.stdout.split(), kind
    assert written.returncode != 0, "outside the jail lies what a session wrote"
    for kind in ("command", "terminal"):
        told = by_pam[kind].stdout
        assert (REFUSAL in told and broken.reason in told) or name == WITHOUT_USERS, (kind, by_pam[kind])
    for kind, refused in known.items():
        assert REFUSAL in refused.stderr, (kind, refused)
        assert broken.reason in refused.stderr, (kind, refused)


@pytest.mark.usefixtures("mended")
def test_without_the_pam_module_nobody_gets_in(cluster: SmallCluster) -> None:
    assert cluster.pod(f"mount --bind /dev/null {PAM_MODULE}", name=LOGIN).returncode == 0
    try:
        refused = attempts(cluster)
    finally:
        assert cluster.pod(f"umount {PAM_MODULE}", name=LOGIN).returncode == 0
    for kind, each in refused.items():
        assert each.returncode != 0, kind
        assert "ran outside" not in each.stdout, kind
        assert "etc" not in each.stdout.split(), kind
