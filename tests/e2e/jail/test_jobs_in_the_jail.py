"""Promises to users: one machine, whose root is the jail, in jobs and logins alike."""

from __future__ import annotations

import re
import shlex
import textwrap

import pytest

ROOT_INODE = "stat -c '%i %d' /"


def test_srun_over_two_nodes_prints_two_pods(slurm):
    hosts = slurm.sh("srun -N2 hostname").ok().split()
    assert sorted(hosts) == ["cpu-0", "cpu-1"]


def test_run_passes_the_exit_status_on(slurm):
    assert slurm.sh("exit 7").status == 7
    assert slurm.sh("srun -n1 sh -c 'exit 9'").status == 9


@pytest.mark.parametrize(
    "how",
    [
        "srun -n1 {}",
        "sbatch --quiet --wait -o $HOME/root.out --wrap {!r} && cat $HOME/root.out",
        'sbatch --quiet --wait -o $HOME/root.out --wrap "srun -n1 {}" && cat $HOME/root.out',
        "salloc -Q -n1 srun -n1 {}",
        # The terminal echoes the end of its input somewhere around the answer.
        "script -qec \"srun --pty {}\" /dev/null | grep -oE '[0-9]+ [0-9]+'",
        "srun -n1 sudo {}",
    ],
    ids=["srun", "sbatch", "srun in sbatch", "salloc", "pty", "root"],
)
def test_every_kind_of_step_has_the_jail_as_its_root(slurm, how):
    in_login = slurm.sh(ROOT_INODE).ok()
    outside = slurm.on_pod("cpu-0", ROOT_INODE).ok()
    assert in_login != outside
    assert slurm.sh(how.format(ROOT_INODE)).ok() == in_login


def test_a_heterogeneous_job_runs_in_the_jail_on_both_nodes(slurm):
    """A batch job; tests/image/jobs/test_het_jobs.py has srun and salloc."""
    how = (
        "printf '#!/bin/sh\\n#SBATCH -n1\\n#SBATCH hetjob\\n#SBATCH -n1\\nsrun --het-group=0,1 {0}\\n' > het.sh && "
        "sbatch --quiet --wait -o het.out het.sh && cat het.out"
    )
    slurm.sh("echo 'echo $(hostname) $(id -un) $(stat -c %i /)' > where.sh").ok()
    root = slurm.sh("stat -c %i /").ok()
    # Slurm starts such jobs in its backfill cycles alone (conftest.SETTINGS).
    ran = slurm.sh(how.format("sh where.sh"), seconds=120).ok()
    assert sorted(ran.splitlines()) == [f"{node} dev {root}" for node in ("cpu-0", "cpu-1")]


def test_the_root_shows_the_jail_and_nothing_of_the_pod(slurm):
    assert "gcc" in slurm.sh("srun -n1 ls /usr/bin").ok().split()
    assert slurm.sh("srun -n1 ls -A /mnt").ok() == "memory", "the dev stack's submount and nothing else"
    assert set(slurm.sh("srun -n1 ls -A /run").ok().split()) <= {".jail-ready", "lock", "node", "slurm", "user", "shm"}
    mounted = slurm.sh("srun -n1 awk '{print $2}' /proc/mounts").ok().split()
    assert "/" in mounted
    for of_the_pod in ("/mnt/jail", "/run/secrets/slurm", "/run/jail"):
        assert of_the_pod not in mounted
    # The pod's last words are not a job's to write: a null device lies over the file.
    slurm.sh("srun -n1 test -c /dev/termination-log").ok()


def test_a_file_made_on_one_node_is_on_all(slurm):
    slurm.sh("srun -n1 -w cpu-0 sh -c 'echo from cpu-0 > ~/shared.txt'").ok()
    assert slurm.sh("cat ~/shared.txt && srun -n1 -w cpu-1 cat shared.txt").ok() == "from cpu-0\nfrom cpu-0"


def test_output_of_a_batch_job_lands_in_the_jail(slurm):
    slurm.sh("sbatch --quiet --wait -o ~/batch-%j.out --wrap 'echo batch on $(hostname)'").ok()
    assert "batch on cpu-" in slurm.sh("cat ~/batch-*.out").ok()
    assert slurm.on_pod("cpu-0", "ls /home/dev 2>&1; ls / | grep -c batch-").text.count("batch-") == 0


def test_a_user_added_on_one_node_works_on_all(slurm):
    slurm.sh("sudo userdel -r carol")  # What a first try left.
    slurm.sh("srun -n1 -w cpu-1 sudo adduser --disabled-password --gecos '' carol").ok()
    slurm.sh("sudo install -d -o carol -g carol -m 700 ~carol/.ssh").ok()
    slurm.sh("sudo install -o carol -g carol -m 600 ~/.ssh/authorized_keys ~carol/.ssh/authorized_keys").ok()
    assert slurm.sh("id -un; srun -N2 id -un", user="carol").ok().split() == ["carol"] * 3
    assert slurm.sh("sudo -n true", user="carol").status != 0


def test_a_package_installed_on_one_node_is_on_all(slurm):
    package = textwrap.dedent("""
        mkdir -p ~/hello/DEBIAN ~/hello/usr/bin
        printf 'Package: hello-jail\\nVersion: 1\\nArchitecture: all\\nMaintainer: dev\\nDescription: test\\n' \
            > ~/hello/DEBIAN/control
        printf '#!/bin/sh\\necho hello from a package\\n' > ~/hello/usr/bin/hello-jail
        chmod 755 ~/hello/usr/bin/hello-jail
        dpkg-deb --root-owner-group --build ~/hello ~/hello-jail.deb
    """)
    slurm.sh(package).ok()
    slurm.sh("srun -n1 -w cpu-0 sudo apt-get install -y ~/hello-jail.deb").ok()
    assert slurm.sh("hello-jail; srun -n1 -w cpu-1 hello-jail").ok() == "hello from a package\nhello from a package"


def test_memory_limits_of_jobs_are_enforced(slurm):
    hog = 'python3 -c "x = bytearray(300 << 20); print(len(x))"'
    assert slurm.sh(f"srun -n1 --mem=400M {hog}").ok() == str(300 << 20)
    killed = slurm.sh(f"srun -n1 --mem=50M {hog}")
    assert killed.status != 0
    assert "oom" in killed.text.lower() or "memory" in killed.text.lower()


HELLO_MPI = r"""
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
  int rank, size, length, sum = 0;
  char host[MPI_MAX_PROCESSOR_NAME];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Get_processor_name(host, &length);
  int mine = rank + 1;
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("rank %d of %d on %s sum %d\n", rank, size, host, sum);
  MPI_Finalize();
  return 0;
}
"""


def ranks_and_hosts(printed: str) -> tuple[set[str], set[str]]:
    """Return which ranks spoke and from where, all having summed up 1 + 2. Slurm orders nodes as they registered."""
    spoken = [line.split() for line in printed.splitlines() if line.startswith("rank")]
    assert all(words[2:4] == ["of", "2"] and words[6:] == ["sum", "3"] for words in spoken), printed
    return {words[1] for words in spoken}, {words[5] for words in spoken}


def test_openmpi_runs_over_both_nodes_in_a_batch_job(slurm):
    slurm.sh(f"cat > ~/hello.c <<'C'\n{HELLO_MPI}\nC\nmpicc.openmpi -o ~/hello-openmpi ~/hello.c").ok()
    slurm.sh("sbatch --quiet --wait -N2 -n2 -o ~/mpi.out --wrap 'mpirun.openmpi ~/hello-openmpi'", seconds=120)
    printed = slurm.sh("cat ~/mpi.out").ok()
    assert ranks_and_hosts(printed) == ({"0", "1"}, {"cpu-0", "cpu-1"}), printed


def test_mpich_runs_over_both_nodes_in_a_batch_job(slurm):
    slurm.sh(f"cat > ~/hello.c <<'C'\n{HELLO_MPI}\nC\nmpicc.mpich -o ~/hello-mpich ~/hello.c").ok()
    script = "mpiexec.mpich -n 2 -ppn 1 ~/hello-mpich"
    slurm.sh(f"sbatch --quiet --wait -N2 -n2 -o ~/mpich.out --wrap '{script}'", seconds=120)
    printed = slurm.sh("cat ~/mpich.out").ok()
    assert ranks_and_hosts(printed) == ({"0", "1"}, {"cpu-0", "cpu-1"}), printed


def test_sbcast_brings_a_file_to_every_node_of_a_job(slurm):
    where = "/tmp/of-the-job"
    script = f"sbcast ~/sent {where} && srun sh -c 'hostname; stat -c %U {where}; cmp ~/sent {where} && echo same'"
    slurm.sh("head -c 3000000 /dev/urandom > ~/sent").ok()
    slurm.sh(f"sbatch --quiet --wait -N2 -o ~/sbcast.out --wrap {shlex.quote(script)}")
    printed = slurm.sh("cat ~/sbcast.out; rm ~/sbcast.out ~/sent").ok()
    assert sorted(printed.splitlines()) == sorted(["cpu-0", "cpu-1", *["dev", "same"] * 2]), printed


def test_root_in_a_job_reaches_neither_the_pods_root_nor_its_keys(slurm):
    for attempt in (
        "cat /proc/1/root/run/secrets/slurm/slurm.key",
        "nsenter -t 1 -m true",
        "mount -t tmpfs none /mnt",
        "mknod /root/disk b 254 0",
        "sh -c 'echo x > /proc/sys/kernel/core_pattern'",
    ):
        refused = slurm.sh(f"srun -n1 sudo {attempt}")
        assert refused.status != 0, f"{attempt} was allowed: {refused.text}"
        assert re.search("(?i)permission denied|not permitted|read-only file system", refused.stderr), refused


def test_jobs_leave_no_cgroups(slurm):
    def groups() -> str:
        return slurm.on_pod("cpu-0", "find /sys/fs/cgroup -type d -name 'job_*'").ok()

    job = slurm.sh("sbatch --parsable -w cpu-0 -o /dev/null --wrap 'sleep 600'").ok()
    slurm.wait("a running job has groups of its own", groups)
    slurm.sh(f"scancel {job}").ok()
    slurm.sh("sbatch --quiet --wait --array=1-10 -w cpu-0 -o /dev/null --wrap true", seconds=180).ok()
    slurm.wait("no job that has ended has groups", lambda: not groups(), 30)


def test_a_step_reaches_all_its_nodes_though_none_passes_its_launch_on(slurm):
    assert sorted(slurm.sh("srun -N2 --treewidth=1 hostname").ok().split()) == ["cpu-0", "cpu-1"]
