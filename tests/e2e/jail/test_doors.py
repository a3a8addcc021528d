"""One machine through every door: logins, remote commands, batch scripts and steps see one root and its users."""

from __future__ import annotations

import subprocess

import pytest

# One fact a line. Left out is what belongs to a node or a job by nature: names, cgroups, their own /proc, /dev and
# submounts, the memory that Slurm gives a job; a job's own /tmp and /run lie over the node's.
FINGERPRINT = r"""
own='^/(proc|sys|dev|var/spool/slurmd|run/node|scratch|mnt/memory)(/|$)|^/etc/nccl.conf$'
fact() { printf '%s=%s\n' "$1" "$(eval "$2" 2>&1 | tr '\n' ' ')"; }
fact root "stat -c '%d %i' /"
fact folders "stat -c '%n %d %i' /home /root /srv /etc /usr"
fact mounts "awk '{print \$2}' /proc/self/mounts | grep -vE '$own' | sort -u"
fact user id
fact users "getent passwd | md5sum"
fact limits "ulimit -a | grep -v 'max memory size'; ulimit -Ha | grep -v 'max memory size'"
fact umask umask
fact locale "locale; date +%Z"
fact home "echo $HOME $SHELL; pwd"
fact capabilities "grep -E '^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status"
fact user-namespace "readlink /proc/self/ns/user; unshare -Ur id -u"
fact cgroup-namespace "unshare -C true; unshare -UrC true"
fact names "cat /etc/resolv.conf"
fact commands "command -v srun gcc sudo rsync python3"
fact slurm "srun --version; sinfo -h -o %P"
"""
RUN = "bash ~/fingerprint"
# A terminal mixes its echo into what is printed.
ON_A_TERMINAL = "script -qec {!r} /dev/null > /dev/null; cat ~/fingerprint.pty"
DOORS = {
    "batch script": "sbatch --quiet --wait -o ~/fingerprint.out ~/fingerprint && cat ~/fingerprint.out",
    "srun": f"srun -n1 {RUN}",
    "srun --pty": ON_A_TERMINAL.format(f"srun --pty bash -c '{RUN} > ~/fingerprint.pty'"),
    "salloc": ON_A_TERMINAL.format(f"salloc -Q -n1 bash -c '{RUN} > ~/fingerprint.pty'"),
}


def facts(printed: str) -> dict[str, str]:
    return dict(line.strip().split("=", 1) for line in printed.splitlines() if "=" in line)


@pytest.fixture(scope="module")
def remote_command(slurm) -> dict[str, str]:
    slurm.sh(f"cat > ~/fingerprint <<'F'\n#!/bin/bash\n{FINGERPRINT}\nF").ok()
    return facts(slurm.sh(RUN).ok())


def test_a_remote_command_is_in_the_jail(slurm, remote_command):
    assert remote_command["root"].split() == slurm.sh("stat -c '%d %i' /").ok().split()
    assert remote_command["user-namespace"].split()[-1] == "0"
    assert "not permitted" in remote_command["cgroup-namespace"]
    assert "srun" in remote_command["commands"]
    assert "error" not in remote_command["slurm"]


@pytest.mark.parametrize("door", DOORS)
def test_a_step_sees_what_a_remote_command_sees(slurm, remote_command, door):
    assert facts(slurm.sh(DOORS[door]).ok()) == remote_command


@pytest.mark.parametrize("words", [[], ["bash", "-s"], ["bash", "-l"]], ids=["login shell", "bash -s", "login bash"])
def test_a_shell_that_reads_its_commands_sees_what_a_remote_command_sees(slurm, remote_command, words):
    """As editors start their servers over SSH: no terminal, the script on stdin."""
    shell = subprocess.run(
        [*slurm.cluster.login.ssh_command(), "-T", "-o", "BatchMode=yes", *words],
        input=f"{RUN}\nexit\n", capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert shell.returncode == 0, shell.stderr
    assert facts(shell.stdout) == remote_command


@pytest.mark.parametrize("pod", ["cpu-0", "slurm-login-0"])
def test_nothing_is_written_to_the_root_of_a_nodes_pod(slurm, pod):
    """There slurmd opens paths for users, and a login node's daemons do."""
    for folder in ("/usr", "/etc", "/opt/slurm/bin"):
        assert "Read-only file system" in slurm.on_pod(pod, f"touch {folder}/made").stderr, folder
    slurm.on_pod(pod, "touch /run/made && rm /run/made").ok()
