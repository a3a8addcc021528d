"""slurmctld itself tells the kubelet whether it is ready (slurmctld(8), HTTP server)."""

import signal

from contract import names
from tests.image.pods import CONTROLLER
from tests.image.small_cluster import SmallCluster

ASK = f"""
import sys, urllib.error, urllib.request
url = "http://127.0.0.1:{names.SLURMCTLD_PORT}" + sys.argv[1]
try:
    print(urllib.request.urlopen(url, timeout=5).status)
except urllib.error.HTTPError as error:
    print(error.code)
except OSError:
    print("silent")
"""


def asked(cluster: SmallCluster, path: str = "/readyz") -> str:
    """Status that slurmctld answers with, or that it is silent."""
    return cluster.pod(f"python3 -c '{ASK}' {path}", name=CONTROLLER).stdout.strip()


def test_the_probe_finds_that_slurmctld_takes_messages(cluster: SmallCluster) -> None:
    cluster.wait("slurmctld is ready", lambda: asked(cluster) == "204", 30)
    assert asked(cluster, "/nowhere") == "404"


def test_a_slurmctld_that_hangs_is_not_ready(cluster: SmallCluster) -> None:
    found = cluster.pod("pidof -s slurmctld", name=CONTROLLER)
    cluster.pod(f"kill -{int(signal.SIGSTOP)} {found.stdout}", name=CONTROLLER).check_returncode()
    try:
        assert asked(cluster) == "silent"
    finally:
        cluster.pod(f"kill -{int(signal.SIGCONT)} {found.stdout}", name=CONTROLLER).check_returncode()
    cluster.wait("slurmctld is ready again", lambda: asked(cluster) == "204", 30)


def test_more_than_the_words_needs_a_token(cluster: SmallCluster) -> None:
    """Jobs reach that port: what slurmctld says of its insides is for Slurm's own user."""
    assert asked(cluster, "/readyz?verbose") in ("401", "403", "500")
