"""Batch scripts of long checks, and the part of the SlurmCluster from which the operator submits them.

A script's exit status is its verdict: 0 passes, 3 could not look. 126 and 127 could not either, since a program is not
there: the operator then tells what the jail needs. From 10 to 109 a measurement failed: it is 10 and the percentage of
the threshold that was reached. Others fail.
"""

import shlex
from collections.abc import Callable, Mapping
from typing import Any, Final

from components.config import Config
from components.config.nodes.long_checks import DCGM_DIAGS, Builtin, LongCheck, Reaction
from components.config.values.quantities import duration_seconds
from components.control import gpu_checks

_NEED: Final = """
need() {
    for program in "$@"; do command -v "$program" >/dev/null || exit 127; done
}
"""
_JUDGE: Final = """
judge() {
    percent=$(($1 / LEAST))
    said=PASS
    [ "$percent" -ge 100 ] || said=FAIL
    measured=$(($1 / 100)).$(($1 % 100 / 10))$(($1 % 10))
    slurm-check-report "$said" --measured "$measured" --least "$LEAST" --unit "$UNIT" || :
    [ "$percent" -ge 100 ] || exit $((10 + percent))
}
"""
"""Compares hundredths of the threshold's unit with it, and reports what it measured."""
_MEMORY_BANDWIDTH: Final = """
# Each CPU writes zeros into a buffer that is larger than its caches.
buffer_mib=32 times=1000
hundredths() {
    read -r up _ </proc/uptime || exit 3
    echo $((${up%.*} * 100 + 1${up#*.} - 100))
}
cpus=${SLURM_CPUS_ON_NODE:-$(nproc)} || exit 3
began=$(hundredths) || exit 3
writers=
number=0
while [ "$number" -lt "$cpus" ]; do
    dd if=/dev/zero of=/dev/null bs=$((buffer_mib * 1048576)) count="$times" 2>/dev/null &
    writers="$writers $!"
    number=$((number + 1))
done
for writer in $writers; do
    wait "$writer" || exit 3
done
ended=$(hundredths) || exit 3
[ "$ended" -gt "$began" ] || exit 3
judge $((cpus * times * buffer_mib * 1048576 / 100000 / (ended - began)))
"""
_DISK: Final = """
# The 48th field of fio's terse output is the bandwidth of writes, in KiB/s. Where no file can be made, nothing was
# measured: UNKNOWN. fio writes to a file without a name: whatever ends this job, nothing of it stays on the disk. The
# file has its size before, since fio unlinks a shorter one to make it longer. DIRECTORY is the administrator's, and
# others may write there: mktemp takes a name that nobody knows, and never a file that is there.
need fio
file=$(mktemp DIRECTORY/check.XXXXXX) || exit 3
exec 9<>"$file"
rm "$file" || exit 3
truncate -s 256M /proc/self/fd/9 || exit 3
write='--rw=write --bs=1M --size=256M --fsync_on_close=1 --loops=4'
said=$(fio --name=check --filename=/proc/self/fd/9 $write --minimal)
case $? in
0) ;;
126 | 127) exit 127 ;;
*) exit 1 ;;
esac
reached=$(echo "$said" | sed -n 's/^3;.*/&/p' | tail -n 1 | cut -d ';' -f 48)
[ "$reached" -gt 0 ] || exit 3
judge $((reached * 1024 / 10000))
"""
_NETWORK: Final = """
# The second node sends to this one for 20 s: to the address by which Slurm's own output of a step comes back.
need iperf3 srun
iperf3 --server --one-off >/dev/null &
server=$!
# The server may need a moment to listen.
send='[ -n "$SLURM_LAUNCH_NODE_IPADDR" ] || exit 3
for try in 1 2 3 4 5; do iperf3 --client "$SLURM_LAUNCH_NODE_IPADDR" --time 20 --json && exit; sleep 1; done; exit 1'
said=$(srun --nodes=1 --ntasks=1 --relative=1 sh -c "$send")
ended=$?
kill "$server" 2>/dev/null
[ "$ended" -ne 3 ] || exit 3
[ "$ended" -eq 0 ] || exit 1
reached=$(echo "$said" | tr -d '\\n' | sed -n 's/.*"sum_received"[^}]*"bits_per_second":[^0-9]*\\([0-9]*\\).*/\\1/p')
[ -n "$reached" ] || exit 3
judge $((reached / 80000))
"""
_MPI_PING_PONG: Final = """
# A program of our own goes to both nodes, built there by the jail's MPI. mpiexec starts it with any MPI.
need mpicc mpiexec srun
folder=/tmp/check.$(od -An -N8 -tx1 /dev/urandom | tr -d ' \\n')
build='mkdir -m 700 "$1" && printf %s "$2" >"$1/a.c" && mpicc -O2 -o "$1/ping-pong" "$1/a.c" || exit 3'
srun --ntasks-per-node=1 sh -c "$build" build "$folder" "$(cat <<'END'
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { BYTES = 4 << 20, WARM = 10, ROUNDS = 100 };

int main(int argc, char **argv)
{
    char *message = calloc(BYTES, 1);
    int rank, size, near;
    double began = 0;
    MPI_Comm node;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &near);
    /* Both processes on one node would measure its memory. */
    for (int round = -WARM; message && size == 2 && near == 1 && round < ROUNDS; round++) {
        if (round == 0)
            began = MPI_Wtime();
        if (rank == 0)
            MPI_Send(message, BYTES, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(message, BYTES, MPI_BYTE, !rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Send(message, BYTES, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
    if (rank == 0 && began > 0)
        printf("hundredths of MB/s: %.0f\\n", 2e-4 * ROUNDS * BYTES / (MPI_Wtime() - began));
    MPI_Finalize();
    return 0;
}
END
)"
case $? in
0) ;;
3) exit 3 ;;
126 | 127) exit 127 ;;
*) exit 1 ;;
esac
said=$(mpiexec -n 2 "$folder/ping-pong")
ended=$?
srun --ntasks-per-node=1 rm -r "$folder"
[ "$ended" -eq 0 ] || exit 1
reached=$(echo "$said" | sed -n 's|^hundredths of MB/s: \\([1-9][0-9]*\\)$|\\1|p')
[ -n "$reached" ] || exit 3
judge "$reached"
"""


_NEEDS: Final = {
    Builtin.DISK: "fio (Debian's package fio)",
    Builtin.NETWORK: "iperf3 (Debian's package iperf3)",
    Builtin.MPI_PING_PONG: "mpicc, mpiexec and a C compiler (Debian's gcc with mpich and libmpich-dev, or openmpi-bin "
    "and libopenmpi-dev)",
    Builtin.ALL_REDUCE: "all_reduce_perf of NVIDIA's nccl-tests; for several nodes built with MPI, and mpiexec",
    Builtin.NVBANDWIDTH: "NVIDIA's nvbandwidth",
    Builtin.IB_WRITE_BW: "ib_write_bw (Debian's package perftest)",
    Builtin.GPU_BURN: "gpu_burn of https://github.com/wilicc/gpu-burn, with its kernel in the same folder, "
    "and nvidia-smi",
    **dict.fromkeys(DCGM_DIAGS, "dcgmi (NVIDIA's datacenter-gpu-manager-4-core)"),
}
"""Programs that a builtin needs in the jail, apart from coreutils and Slurm's commands."""


def script(check: LongCheck) -> str:
    """Return the batch script of a check, for /bin/sh of the jail."""
    if check.script is not None:
        return f"#!/bin/sh\nexec {shlex.quote(check.script)}\n"
    if check.builtin is None:
        raise AssertionError("one of builtin and script is given")
    return f"#!/bin/sh\n{_threshold(check)}{_NEED}{_PARTS[check.builtin](check)}"


def _threshold(check: LongCheck) -> str:
    """Return the lines with the threshold and the way to compare it."""
    if check.builtin is None or not check.builtin.measures:
        return ""
    least = "" if check.least is None else f"LEAST={check.least}\n"
    return f"UNIT={check.builtin.unit}\n{least}{_JUDGE}"


_PARTS: Final[Mapping[Builtin, Callable[[LongCheck], str]]] = {
    Builtin.MEMORY_BANDWIDTH: lambda check: _MEMORY_BANDWIDTH,
    Builtin.DISK: lambda check: _DISK.replace("DIRECTORY", shlex.quote(str(check.directory))),
    Builtin.NETWORK: lambda check: _NETWORK,
    Builtin.MPI_PING_PONG: lambda check: _MPI_PING_PONG,
    Builtin.ALL_REDUCE: gpu_checks.all_reduce,
    Builtin.NVBANDWIDTH: gpu_checks.nvbandwidth,
    Builtin.IB_WRITE_BW: gpu_checks.ib_write_bw,
    Builtin.GPU_BURN: gpu_checks.gpu_burn,
    **dict.fromkeys(DCGM_DIAGS, gpu_checks.dcgm_diag),
}


def _needs(check: LongCheck) -> str:
    """Return the programs that a check needs in the jail, in words."""
    return _NEEDS.get(check.builtin, "coreutils") if check.builtin is not None else str(check.script)


def _least(check: LongCheck) -> str:
    """Return what a check is to measure, with its unit; empty for one that measures nothing."""
    if check.builtin is None or not check.builtin.measures:
        return ""
    return f"its GPUs' {check.builtin.unit}" if check.least is None else f"{check.least} {check.builtin.unit}"


def _due(check: LongCheck) -> dict[str, int | str]:
    """Return when a check's nodes are due, as the SlurmCluster has it."""
    return {"schedule": check.schedule} if check.schedule else {"everySeconds": duration_seconds(check.every)}


def declared_checks(config: Config) -> list[dict[str, Any]]:
    """Return the long checks as the SlurmCluster has them."""
    members = {partition.name: partition.node_sets for partition in config.effective_partitions}
    return [
        {
            "name": check.name,
            "partition": check.partition,
            "nodeSets": members[check.partition],
            **_due(check),
            "timeLimitMinutes": check.minutes,
            "sharePercent": check.share_percent,
            "nodes": check.nodes,
            "passes": check.return_after_passes,
            "drains": check.reaction is Reaction.DRAIN,
            "beforeJobs": check.before_jobs,
            "needs": _needs(check),
            "least": _least(check),
            "script": script(check),
        }
        for check in config.health.long_checks
    ]
