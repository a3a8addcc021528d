"""slurmstepd starts nothing outside of the job once its tasks run, and still serves its job completely."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.image.doors.stepd_rights import KEPT, THREADS
from tests.image.small_cluster import ALICE, NewCluster, SmallCluster

WITNESS = """#!/bin/sh
{ tr '\\0' ' ' < /proc/1/cmdline; echo; grep -E '^(CapBnd|Seccomp):' /proc/self/status
  readlink /proc/self/ns/mnt /proc/self/ns/pid /proc/self/ns/ipc; pwd; id -u; } > "$HOME/$1witness" 2>&1
exit 3
"""
SPACES = "readlink /proc/self/ns/mnt /proc/self/ns/pid /proc/self/ns/ipc"
# Lists what the paths of secrets show to root with slurmstepd's rights, in the mounts of each of its threads.
SIGHT = """
for each in $(pgrep -f '^slurmstepd: '); do
    for root in /proc/$each/task/*/root; do
        find $root/run/secrets $root/mnt/jail -mindepth 1 2>/dev/null
        base64 $root/run/slurm-node/slurm.key 2>/dev/null
    done
done
"""
SPOOL = "/var/spool/slurmd/spooled"


WITHOUT_PLUGIN = (
    "mkdir -p conf; cp /run/slurm/conf/*.conf conf 2>/dev/null || cp /var/spool/slurmd/conf-cache/*.conf conf; "
    "rm -f conf/plugstack.conf; export SLURM_CONF=$PWD/conf/slurm.conf; "
)
"""For a shell in the jail: its srun then loads no plugin, and tells ours nothing."""


@pytest.fixture(scope="module")
def of_the_site(new_cluster: NewCluster) -> Iterator[SmallCluster]:
    """A cluster whose slurm.conf has a TaskEpilog."""
    with new_cluster(slurm={"options": {"TaskEpilog": "/home/alice/epilog"}}) as started:
        yield started


def put(cluster: SmallCluster, name: str, text: str) -> str:
    """Writes a program of alice's; returns its path in the jail."""
    done = cluster.jail(f"cat > {name} <<'END'\n{text}\nEND\nchmod 755 {name}; rm -f *witness", user=ALICE)
    assert done.returncode == 0, done
    return f"/home/alice/{name}"


def ran_inside(cluster: SmallCluster, command: str) -> None:
    """Runs a step of alice's with an epilog that fails, and checks that this ran where the step's task did."""
    inside = cluster.jail(command, user=ALICE)
    first, bounds, seccomp, *rest = cluster.jail("cat witness", user=ALICE).stdout.splitlines()
    assert first.startswith("job_init ")
    assert int(bounds.split()[1], 16) & 1 << 21 == 0, "it could gain SYS_ADMIN"
    assert seccomp == "Seccomp:\t2"
    assert rest == [*inside.stdout.splitlines(), "/home/alice", str(ALICE)]
    # Slurm 26.05 gives the site's epilog the name of the user's option, and the reverse.
    assert re.search("(TaskEpilog|--task-epilog) failed status=3", inside.stderr), inside.stderr


def test_a_task_epilog_runs_as_the_task_did(cluster: SmallCluster) -> None:
    program = put(cluster, "epilog", WITNESS)
    ran_inside(cluster, f"srun -Q -n1 --task-epilog={program} sh -c '{SPACES}; cd /tmp'")


@pytest.mark.parametrize("client", ["", WITHOUT_PLUGIN], ids=["plugin", "no plugin"])
def test_the_sites_task_epilog_runs_as_the_task_did(of_the_site: SmallCluster, client: str) -> None:
    put(of_the_site, "epilog", WITNESS)
    ran_inside(of_the_site, f"{client}srun -Q -n1 sh -c '{SPACES}; cd /tmp'")


def test_each_of_several_tasks_has_its_epilog(cluster: SmallCluster) -> None:
    program = put(cluster, "each", '#!/bin/sh\necho "$SLURM_PROCID $SLURM_SCRIPT_CONTEXT" >> $HOME/manywitness')
    done = cluster.jail(f"srun -Q -n2 --overcommit --task-epilog={program} true", user=ALICE)
    assert (done.returncode, done.stderr) == (0, "")
    said = cluster.jail("sort manywitness", user=ALICE).stdout
    assert said == "0 epilog_task\n1 epilog_task\n"


def test_a_missing_epilog_is_one_sentence_that_names_the_option(cluster: SmallCluster) -> None:
    done = cluster.jail("srun -Q -n1 --task-epilog=/home/alice/nowhere true", user=ALICE)
    (sentence,) = re.findall(r"error: (jail: .*)", done.stderr)
    assert sentence == (
        "jail: the task epilog /home/alice/nowhere (--task-epilog, or TaskEpilog of slurm.conf) did not run in the "
        "job: No such file or directory"
    )


def test_an_epilog_that_srun_hid_from_the_plugin_is_refused(cluster: SmallCluster) -> None:
    program = put(cluster, "hidden", WITNESS)
    done = cluster.jail(
        f"{WITHOUT_PLUGIN}srun -Q -n1 --task-epilog={program} true",
        user=ALICE,
    )
    assert "slurmstepd starts no program outside of the job" in done.stderr
    assert cluster.jail("cat witness", user=ALICE).returncode != 0


def test_an_epilog_ends_when_slurm_gives_it_up(cluster: SmallCluster) -> None:
    program = put(cluster, "slow", "#!/bin/sh\necho $$ > $HOME/slowwitness\nexec sleep 1234")
    done = cluster.jail(f"timeout 40 srun -Q -n1 --task-epilog={program} true", user=ALICE)
    assert "TaskEpilog failed" in done.stderr
    assert cluster.jail("cat slowwitness", user=ALICE).stdout.strip()
    cluster.wait("its end", lambda: cluster.pod("pgrep -u alice").returncode == 1, 20)


@pytest.mark.parametrize("options", ["", "--task-epilog=/bin/true "])
def test_every_thread_of_slurmstepd_is_confined(cluster: SmallCluster, options: str) -> None:
    submitted = cluster.jail(f"sbatch --parsable -o /dev/null --wrap 'srun {options}-n1 sleep 100'", user=ALICE)
    job = submitted.stdout.strip()
    try:
        cluster.wait("the step", lambda: cluster.pod("pgrep -u alice -x sleep").stdout, 30)
        told = cluster.pod(THREADS).stdout
        assert all(f"slurmstepd: [{job}.{step}]" in told for step in ("batch", "extern", "0"))
        kinds = {name: set(re.findall(rf"{name}:\t(\S+)", told)) for name in ("Seccomp", "NoNewPrivs", "CapPrm")}
        assert kinds["Seccomp"] == {"2"}
        assert kinds["NoNewPrivs"] == {"1"}
        assert len(re.findall("Seccomp", told)) > 2, "each has more threads"
        assert kinds["CapPrm"] == {f"{KEPT:016x}"}
        assert cluster.pod("grep CapPrm /proc/1/status").stdout.split()[1] not in kinds["CapPrm"]
        assert cluster.pod(SIGHT).stdout == ""
        assert cluster.pod("wc -c < /run/slurm-node/slurm.key").stdout == f"{len(cluster.key)}\n", "there is one"
    finally:
        assert cluster.jail(f"scancel {job}").returncode == 0
    cluster.wait("the job's end", lambda: not cluster.jail(f"squeue -h -j {job}").stdout.strip(), 60)
    assert cluster.pod("pgrep -u alice").returncode == 1


def test_it_still_signals_suspends_attaches_and_ends(cluster: SmallCluster) -> None:
    script = "trap 'echo usr1' USR1; trap 'echo term; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    put(cluster, "loop", f"#!/bin/sh\n{script}")
    submitted = cluster.jail(
        "sbatch --parsable -o loop.out --wrap 'srun -n1 ./loop; srun -n1 --overlap echo after'", user=ALICE
    )
    job = submitted.stdout.strip()
    # A shell that has not come to its traps would end by the signal.
    cluster.wait("the step", lambda: "ready" in cluster.jail("cat loop.out", user=ALICE).stdout, 30)
    assert cluster.jail(f"scancel --signal=USR1 {job}.0", user=ALICE).returncode == 0
    cluster.wait("a signal", lambda: "usr1" in cluster.jail("cat loop.out", user=ALICE).stdout, 20)
    assert cluster.jail(f"scontrol suspend {job}").returncode == 0
    stopped = "grep -l 'State:.T' /proc/[0-9]*/status"
    cluster.wait("it stops", lambda: cluster.pod(stopped).stdout, 20)
    assert cluster.jail(f"scontrol resume {job}").returncode == 0
    cluster.wait("it goes on", lambda: not cluster.pod(stopped).stdout, 20)
    assert cluster.jail(f"sstat -n -j {job}.0 -o JobID", user=ALICE).returncode == 0
    attached = cluster.jail(f"timeout 2 sattach {job}.0", user=ALICE)
    assert attached.returncode == 124, attached.stderr
    assert cluster.jail(f"scancel --signal=TERM {job}.0", user=ALICE).returncode == 0
    cluster.wait("the job's end", lambda: not cluster.jail(f"squeue -h -j {job}").stdout.strip(), 60)
    said = cluster.jail("cat loop.out", user=ALICE).stdout.splitlines()
    assert said[-1] == "after"
    assert "term" in said


def test_a_terminal_works(cluster: SmallCluster) -> None:
    done = cluster.jail("script -qc 'srun -Q -n1 --pty tty' /dev/null", user=ALICE)
    # The end of script's own input is echoed before or after it.
    assert re.search(r"/dev/pts/[0-9]+", done.stdout), done
    assert "not a tty" not in done.stdout


def test_root_has_no_jobs(cluster: SmallCluster) -> None:
    """slurmstepd would open files with root's rights for them."""
    for asks in ("srun -n1 true", "sbatch --wrap true", "salloc -n1 true"):
        asked = cluster.jail(asks)
        assert asked.returncode != 0
        assert "Invalid user id" in asked.stderr


@pytest.mark.parametrize(
    "path",
    ["/proc/1/root/etc/passwd", "/proc/1/cwd/etc/passwd", "/proc/1/cmdline", "/proc/self/maps", SPOOL],
)
def test_slurmstepd_opens_nothing_of_the_node_for_root(cluster: SmallCluster, path: str) -> None:
    """Also where an administrator lets root have jobs, slurmstepd does not look who asks."""
    cluster.let_root_submit()
    cluster.pod(f"echo spooled > {SPOOL}").check_returncode()
    done = cluster.jail(f"rm -f read; timeout 50 sbatch --wait -i {path} -o read --wrap cat; cat read", seconds=70)
    assert done.stdout.startswith("Submitted"), done
    assert len(done.stdout.splitlines()) == 1, done.stdout
    well = "echo given > given; timeout 50 sbatch -Q --wait -i given -o read --wrap cat; cat read"
    assert cluster.jail(well, seconds=70).stdout == "given\n", "root's jobs run then"


@pytest.mark.parametrize("option", ["-o", "-e"])
@pytest.mark.parametrize("path", [SPOOL, f"{SPOOL}-missing"], ids=["there", "missing"])
def test_slurmstepd_neither_empties_nor_makes_a_file_of_the_node_for_root(
    cluster: SmallCluster, option: str, path: str
) -> None:
    cluster.let_root_submit()
    cluster.pod(f"rm -f {SPOOL}*; echo spooled > {SPOOL}").check_returncode()
    wrap = "timeout 50 sbatch --wait -o read {} --wrap 'echo written'; cat read"
    done = cluster.jail("rm -f read; " + wrap.format(f"{option} {path}"), seconds=70)
    assert done.stdout.startswith("Submitted"), done
    assert cluster.pod(f"grep -H '' {SPOOL}*").stdout == f"{SPOOL}:spooled\n"
    assert "written" not in done.stdout
    assert "written" in cluster.jail(wrap.format(""), seconds=70).stdout, "root's jobs run then"
