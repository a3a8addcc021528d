"""MPICH in a job and in its containers: by mpiexec, and by Slurm's PMI-2 where the configuration has it."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image import roots
from tests.image.jobs.bundles import make_bundle
from tests.image.small_cluster import ALICE, SmallCluster
from tests.witness.messages import rpcs

# MPICH's own numbers (mpi.h): MPI_COMM_WORLD, MPI_INT, MPI_SUM.
PROGRAM = """
import ctypes, os
mpi = ctypes.CDLL("libmpich.so.12", ctypes.RTLD_GLOBAL)
world, rank, size, total = 0x44000000, ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
assert not mpi.MPI_Init(None, None)
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
mpi.MPI_Comm_size(world, ctypes.byref(size))
one = ctypes.c_int(rank.value + 1)
mpi.MPI_Allreduce(ctypes.byref(one), ctypes.byref(total), 1, 0x4c000405, 0x58000003, world)
print(rank.value, size.value, total.value, os.path.exists("/of-the-image"), flush=True)
mpi.MPI_Finalize()
"""

# PMI-2 as MPICH speaks it (its pmi2 wire protocol): a first line, then words with their length in six characters.
SPAWNER = """#!/usr/bin/python3
import os, socket, time
connection = socket.socket(fileno=os.dup(int(os.environ["PMI_FD"])))
connection.settimeout(40)
answers = connection.makefile("rb")
def say(text):
    connection.sendall(b"%6d%s" % (len(text), text.encode()))
    return answers.read(int(answers.read(6))).decode()
connection.sendall(b"cmd=init pmi_version=2 pmi_subversion=0\\n")
answers.readline()
say(f"cmd=fullinit;pmijobid={os.environ['PMI_JOBID']};pmirank=0;threaded=FALSE;")
status = dict(line.split(":\\t") for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
first = open("/proc/1/cmdline").read().partition("\\0")[0]
print(os.environ["SLURM_JOB_ID"], os.environ["SLURM_STEP_ID"], os.getuid(), first, os.readlink("/proc/self/ns/mnt"),
      os.readlink("/proc/self/ns/pid"), status["CapBnd"], status["Seccomp"], flush=True)
if "PMI_SPAWNED" in os.environ:
    open("born", "w").close()
    say("cmd=finalize;")
else:
    spawn = "cmd=spawn;ncmds=1;preputcount=0;subcmd=/home/alice/spawner;maxprocs=1;argc=0;infokeycount=0;"
    connection.sendall(b"%6d%s" % (len(spawn), spawn.encode()))
    # Slurm 26.05 loses the answer to some spawns whose program ends soon.
    end = time.monotonic() + 60
    while not os.path.exists("born") and time.monotonic() < end:
        time.sleep(0.1)  # The spawned program tells by this file alone.
"""

# What slurmd passes on to a step's slurmstepd, of a user's REQUEST_FORWARD_DATA: a spawn under the token of an id.
FORWARDED = """
import os, socket, struct, sys
sys.path.insert(0, sys.argv[1])
from rpc_client import AUTH_SLURM, token
def text(of):
    return struct.pack("!I", len(of) + 1) + of + b"\\0"
user = int(sys.argv[2])
os.seteuid(user)
signed = token(b"").rstrip(b"\\0")
os.seteuid(0)
SPAWN, SEQUENCE, COMMANDS, PUTS, PROCESSES, ARGUMENTS, INFOS = 2, 1, 1, 0, 1, 0, 0
body = struct.pack("!HI", SPAWN, AUTH_SLURM) + text(signed) + struct.pack("!I", SEQUENCE) + text(b"cpu-0")
body += struct.pack("!II", COMMANDS, PUTS) + text(b"/home/alice/spawner")
body += struct.pack("!III", PROCESSES, ARGUMENTS, INFOS)
with socket.socket(socket.AF_UNIX) as step:
    step.settimeout(30)
    step.connect(sys.argv[3])
    step.sendall(struct.pack("!II", user, len(body)) + body)
    step.recv(100)
"""


@pytest.fixture(scope="module")
def cluster(image: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallCluster]:
    folder = tmp_path_factory.mktemp("mpi")
    with SmallCluster(image, roots.make("mpich", folder / "root"), folder, slurm={"mpiPlugins": ["pmi2"]}) as started:
        started.start()
        home = folder / "volume/persistent/home/alice"
        (home / "mpi.py").write_text(PROGRAM)
        (home / "spawner").write_text(SPAWNER)
        (home / "spawner").chmod(0o755)
        make_bundle(started.root, home / "bundle")
        yield started


@pytest.mark.parametrize(
    "launcher",
    [
        "srun -Q -n2 --overcommit --mpi=pmi2",
        "srun -Q -n2 --overcommit --mpi=pmi2 --container=bundle",
        "salloc -Q -n2 --overcommit mpiexec -n 2",
    ],
    ids=["jail", "container", "mpiexec"],
)
def test_ranks_find_each_other(cluster: SmallCluster, launcher: str) -> None:
    done = cluster.jail(f"timeout 80 {launcher} python3 mpi.py", user=ALICE, seconds=90)
    inside = str("--container" in launcher)
    assert sorted(done.stdout.splitlines()) == [f"0 2 3 {inside}", f"1 2 3 {inside}"], done.stderr


LINKED = """
srun -Q --container=bundle sh -c 'until [ -e go ]; do sleep 0.1; done' &
until made=$(find /tmp/.slurm-* -name environment 2>/dev/null | grep .); do sleep 0.1; done
folder=$(dirname $made)
mv $folder $folder.was && ln -s /srv/kept $folder && echo linked
touch go
wait
"""


def test_slurmstepd_clears_a_containers_folder_through_no_link(cluster: SmallCluster) -> None:
    assert cluster.jail("mkdir -p /srv/kept && touch /srv/kept/environment").returncode == 0
    cluster.jail("rm -f go", user=ALICE)
    assert cluster.batch(LINKED) == "linked\n"
    assert cluster.jail("ls /srv/kept").stdout == "environment\n"


def test_a_program_that_pmi2_spawns_is_born_into_the_job(cluster: SmallCluster) -> None:
    """The user's own srun starts another for it."""
    command = "rm -f born; SLURM_OVERLAP=1 timeout 80 srun -Q -n1 --mpi=pmi2 ./spawner"
    done = cluster.jail(command, user=ALICE, seconds=90)
    parent, child = sorted(line.split() for line in done.stdout.splitlines())
    job, step, *place = parent
    assert (step, place[-1]) == ("0", "2"), done
    assert child == [job, "1", *place], "the same user, process 1, namespaces, rights and filter"


@pytest.mark.parametrize(
    ("user", "refusal"),
    [
        (ALICE, f"mpi/pmi2: spawn request apparently from uid {ALICE}"),
        # No jail gets a token of root's (native/doors/sack_door.c).
        (0, "mpi/pmi2: failed to exec srun: Operation not permitted"),
    ],
    ids=["user", "root"],
)
def test_slurmstepd_spawns_nothing_itself(cluster: SmallCluster, user: int, refusal: str) -> None:
    (cluster.root / "srv").mkdir(exist_ok=True)
    shutil.copy(rpcs.CLIENT, cluster.root / "srv")
    step = "rm -f spawned; sbatch --parsable -o spawned --wrap 'SLURM_OVERLAP=1 srun -n1 --mpi=pmi2 sleep 300'"
    job = cluster.jail(step, user=ALICE).stdout.strip()
    try:
        socket = f"/var/spool/slurmd/sock.pmi2.{job}.0"
        cluster.wait("the step's socket", lambda: cluster.pod(f"test -S {socket}").returncode == 0, 30)
        words = shlex.join([FORWARDED, "/run/jail/srv", str(user), socket])
        sent = cluster.pod(f"python3 -c {words}")
        assert sent.returncode == 0, sent
        cluster.wait("its refusal", lambda: refusal in cluster.jail("cat spawned", user=ALICE).stdout, 30)
        assert cluster.jail(f"squeue -h --steps -j {job} -o %i | grep -c '[.][1-9]'").stdout == "0\n"
    finally:
        cluster.jail(f"scancel {job}", user=ALICE)
