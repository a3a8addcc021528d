"""Jobs find NCCL's settings of their node set on a node, and shared memory of its size."""

from __future__ import annotations


def test_a_job_finds_what_nccl_is_told_on_its_node_however_it_is_started(slurm):
    told = "NCCL_SOCKET_IFNAME=eth0"
    assert slurm.sh("srun -N2 cat /etc/nccl.conf").ok().splitlines() == [told, told]
    written = slurm.sh("sbatch --wait -o told.out --wrap 'cat /etc/nccl.conf' >/dev/null && cat told.out; rm told.out")
    assert written.ok() == told
    assert slurm.sh("cat /etc/nccl.conf 2>/dev/null").text.strip() == "", "a login node is no node of the set"


def test_shared_memory_and_temporary_files_have_their_sizes(slurm):
    size = "df --block-size=1M --output=size /dev/shm /tmp | tail -2"
    assert slurm.sh(f"srun -N1 sh -c '{size}'").ok().split() == ["96", "128"]
