"""The sockets by which Slurm's own parts speak to each other on a node.

Nobody in a jail reaches those of steps. That of authentication does for a user what is about himself.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.image import roots
from tests.image.pods import LOGIN, WORKER
from tests.image.small_cluster import ALICE, SmallCluster
from tests.witness.messages import rpcs, step_requests

FOLDER = "/srv/sockets"
PROGRAMS = ("rpc_client.py", "sack_client.py", "socket_probe.py")
VERIFIED = "00000000"
CREATE, VERIFY = 64001, 64002
FROM_A_SACK = re.compile(r"unexpected rpc=(\d+)")


@pytest.fixture(scope="module")
def cluster(image: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallCluster]:
    """With sudo in the jail, and the programs of this test."""
    folder = tmp_path_factory.mktemp("sockets")
    with SmallCluster(image, roots.make("jail", folder / "root"), folder, as_in_kubernetes=True) as started:
        started.start()
        started.start_login()
        started.jail("echo 'alice ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/alice").check_returncode()
        (started.root / FOLDER.lstrip("/")).mkdir()
        for name in PROGRAMS:
            (started.root / FOLDER.lstrip("/") / name).write_text(Path(rpcs.__file__).with_name(name).read_text())
        yield started


@pytest.fixture(scope="module")
def job(cluster: SmallCluster) -> Iterator[str]:
    """A job of alice's with a step."""
    submitted = cluster.jail("sbatch --parsable -n1 --mem=100 -o /dev/null --wrap 'srun sleep 600'", user=ALICE)
    number = submitted.stdout.strip()
    cluster.wait("the step", lambda: cluster.pod("pgrep -u alice -x sleep").stdout, 30)
    yield number
    cluster.jail(f"scancel {number}", user=ALICE)


def test_every_request_that_slurmstepd_takes_is_classified(image: Path) -> None:
    program = image / "opt/slurm/sbin/slurmstepd"
    found, relayed = (step_requests.taken(program, table) for table in ("stepd_rpcs", "stepd_proxy_rpcs"))
    assert not step_requests.differences(found, relayed)
    assert len(step_requests.differences({**found, 99: step_requests.Asks.OWNER}, {})) == 1 + len(relayed)


def in_the_job(cluster: SmallCluster, job: str, command: str) -> str:
    """Return the output of a command that alice runs in a step of the job."""
    return cluster.jail(f"srun -Q --jobid={job} -n1 --overlap --mem=0 {command}", user=ALICE).stdout


def in_another_job(cluster: SmallCluster, _: str, command: str) -> str:
    """Return the output of a command that alice runs in a job of its own."""
    return cluster.jail(f"srun -Q -n1 --mem=50 {command}", user=ALICE).stdout


def on_a_login_node(cluster: SmallCluster, _: str, command: str) -> str:
    """Return the output of a command that runs over SSH."""
    return cluster.ssh(command).stdout


Place = Callable[[SmallCluster, str, str], str]
NODES: dict[Place, str] = {in_the_job: WORKER, in_another_job: WORKER, on_a_login_node: LOGIN}
"""Where somebody asks → the node whose socket he has."""
DAEMONS = {WORKER: "slurmd", LOGIN: "sackd"}
by_place = pytest.mark.parametrize("place", NODES, ids=lambda place: place.__name__)
by_person = pytest.mark.parametrize(("sudo", "user"), [("", ALICE), ("sudo -n ", 0)], ids=["user", "with sudo"])


@by_place
@by_person
def test_nobody_in_a_jail_reaches_a_steps_socket(
    cluster: SmallCluster, job: str, place: Place, sudo: str, user: int
) -> None:
    found = cluster.pod("find /var/spool/slurmd -type s").stdout.split()
    assert {f"/var/spool/slurmd/{WORKER}_{job}.{step}" for step in (0, 4294967291, 4294967292)} <= {*found}
    said = place(cluster, job, f"{sudo}python3 {FOLDER}/socket_probe.py {shlex.join(found)}")
    assert said == f"tried {len(found)} as {user}\n"


@pytest.mark.parametrize("user", [0, ALICE])
def test_whoever_reached_it_would_be_answered(cluster: SmallCluster, job: str, user: int) -> None:
    """Each step's socket, by its path, of whoever is in the pod's own root: also of alice, by its mode."""
    spool = "/var/spool/slurmd"
    path = f"{spool}/{WORKER}_{job}.0"
    probe = f"setpriv --reuid={user} --clear-groups python3 - {path} < /run/jail{FOLDER}/socket_probe.py"
    opened = f"was=$(stat -c %a {spool}); chmod 711 {spool}; {probe}; chmod $was {spool}"
    said = cluster.pod(opened).stdout
    assert f"reached {path}\n" in said


@by_place
def test_sack_answers_a_user_two_requests_and_root_of_a_jail_none(
    cluster: SmallCluster, job: str, place: Place
) -> None:
    node = NODES[place]
    daemon = DAEMONS[node]
    before, since = cluster.pod(f"pgrep -ox {daemon}", name=node).stdout, len(cluster.log(node))
    said = json.loads(place(cluster, job, f"python3 {FOLDER}/sack_client.py"))
    assert said.pop("uid") == ALICE
    answered = {name: answer for name, answer in said.items() if answer}
    assert {*answered} == {str(CREATE), "own token", "verify own"}
    assert answered["verify own"] == VERIFIED
    asked = {int(name) for name in said if name.isdigit()}
    assert {int(number) for number in FROM_A_SACK.findall(cluster.log(node)[since:])} == asked - {CREATE, VERIFY}
    of_root = json.loads(place(cluster, job, f"sudo -n python3 {FOLDER}/sack_client.py"))
    assert of_root.pop("uid") == 0
    assert not any(of_root.values())
    assert cluster.pod(f"pgrep -ox {daemon}", name=node).stdout == before, "it is the one that it was"
