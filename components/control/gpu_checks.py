"""Batch scripts of builtin long checks of GPUs and RDMA adapters; long_checks.py has what their exit statuses mean."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from components.config.nodes.long_checks import Builtin, LongCheck

_THRESHOLDS: Final = Path(__file__).parents[2] / "health/node_health/thresholds.json"
"""Of health/thresholds, by product."""
_PRODUCT_VARIABLES: Final[Mapping[Builtin, Mapping[str, str]]] = {
    Builtin.ALL_REDUCE: {"LEAST": "allReduce.bandwidth", "MESSAGE": "allReduce.message"},
    Builtin.NVBANDWIDTH: {"LEAST": "nvbandwidth.host"},
}
"""Variable of a script → threshold."""
_PRODUCT_GPUS: Final = 8
"""GPUs of a machine whose all-reduce the thresholds are about."""
_GPUS: Final = """
gpus=${SLURM_GPUS_ON_NODE:-$(nvidia-smi -L | grep -c '^GPU ')}
[ "$gpus" -gt 0 ] || exit 3
"""
_ENDED: Final = """
case $? in
0) ;;
126 | 127) exit 127 ;;
*) exit 1 ;;
esac
"""
_LOWEST: Final = """
# The lowest of numbers, in hundredths.
lowest() {
    lowest=
    for number in "$@"; do
        case $number in *.*) ;; *) number=$number.0 ;; esac
        part=1$(echo "${number#*.}00" | cut -c 1-2)
        number=$((${number%.*} * 100 + part - 100))
        [ "${lowest:-$number}" -lt "$number" ] || lowest=$number
    done
    echo "$lowest"
}
"""
_ALL_REDUCED: Final = """
# nccl-tests; the last lines have the mean of the bus bandwidth, in GB/s. A whole number has no decimals.
reached=$(echo "$said" | sed -n 's/^# Avg bus bandwidth *: *\\([0-9][0-9.]*\\).*/\\1/p')
[ -n "$reached" ] || exit 3
if [ "$(echo "$reached" | wc -l)" -ne 1 ]; then
    slurm-check-report UNKNOWN 'each node measured itself alone: all_reduce_perf is built without its MPI'
    exit 3
fi
judge "$(lowest "$reached")"
"""
_SEVERAL: Final = """
if [ "$gpus" -eq 1 ]; then
    slurm-check-report UNKNOWN 'a node with one GPU has nothing to reduce by itself: give the check several nodes'
    exit 3
fi
"""
_ACROSS: Final = """
# One rank on each node, with all GPUs there. mpiexec starts it with any MPI, by a step of srun. In an exclusive job a
# step has no GPU (srun(1), --gres), but an external launcher's has all. sbatch sets the same variables in its jobs.
launcher=--external-launcher
export HYDRA_LAUNCHER_EXTRA_ARGS=$launcher OMPI_MCA_plm_slurm_args=$launcher PRTE_MCA_plm_slurm_args=$launcher
# Open MPI would bind a rank to few CPUs.
export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
"""
_NVBANDWIDTH: Final = """
# Copies between the host and each GPU, in both directions: the slowest counts. A row of GB/s follows the GPUs' numbers.
said=$(nvbandwidth -t host_to_device_memcpy_ce device_to_host_memcpy_ce 2>&1)
ended=$?
# It binds itself to the CPUs that are nearest to a GPU. A job may have none of these.
case $ended,$said in
[!0]*NVML_ERROR*) said=$(nvbandwidth -d -t host_to_device_memcpy_ce device_to_host_memcpy_ce); ended=$? ;;
esac
(exit "$ended")
ENDED
set -- $(echo "$said" | sed -n 's/^ *0\\(\\( \\{1,\\}[0-9]\\{1,\\}\\.[0-9]\\{1,\\}\\)\\{1,\\}\\) *$/\\1/p')
[ $# -eq $((2 * gpus)) ] || exit 3
judge "$(lowest "$@")"
""".replace("ENDED\n", _ENDED.lstrip())
_GPU_BURN: Final = """
# All GPUs multiply matrices and compare the results. It looks for its kernel in the folder where it was started, and
# its exit status says nothing of faulty GPUs. It takes 30 s to end. A GPU that died may be told to be OK.
burner=$(readlink -f "$(command -v gpu_burn)")
cd "${burner%/*}" || exit 3
"$burner" -h >/dev/null 2>&1
ENDED
told='s/^[[:space:]]*\\(GPU [0-9]*: OK\\)$/\\1/p; s/.*DIED.*/DIED/p'
said=$("$burner" SECONDS 2>/dev/null | tr '\\r' '\\n' | sed -n "$told")
well=$(echo "$said" | grep -c OK)
case $said in
*DIED*) well=$((well < gpus ? well : gpus - 1)) ;;
*) [ "$well" -ne "$gpus" ] || exit 0 ;;
esac
why='the others computed wrongly, died, or did not end'
slurm-check-report FAIL --measured "$well" --least "$gpus" --unit GPUs "$why"
exit 1
""".replace("ENDED\n", _ENDED.lstrip())
_IB_WRITE_BW: Final = """
# The second node writes into this one's memory for 5 s, by the first active port of each adapter of the pod: the
# slowest counts. A machine may have adapters without a cable.
# Slurm tells that node this one's address. The server may need a moment to listen.
write='[ -n "$SLURM_LAUNCH_NODE_IPADDR" ] || exit 3
for try in 1 2 3 4 5; do
    ib_write_bw -d "$1" -i "$2" -F -D 5 --report_gbits "$SLURM_LAUNCH_NODE_IPADDR" && exit
    sleep 1
done
exit 1'
set --
for verbs in /sys/class/infiniband_verbs/uverbs*; do
    [ -e "/dev/infiniband/${verbs##*/}" ] || continue
    adapter=$(cat "$verbs/ibdev") || exit 3
    port=$(grep -ls '^4: ' /sys/class/infiniband/"$adapter"/ports/*/state | head -n 1)
    port=${port%/state}
    port=${port##*/}
    [ -n "$port" ] || continue
    ib_write_bw -d "$adapter" -i "$port" -F -D 5 --report_gbits >/dev/null 2>&1 &
    server=$!
    said=$(srun --nodes=1 --ntasks=1 --relative=1 sh -c "$write" write "$adapter" "$port")
    ended=$?
    kill "$server" 2>/dev/null
    [ "$ended" -ne 3 ] || exit 3
    [ "$ended" -eq 0 ] || exit 1
    # Bytes, iterations, the peak, the mean.
    line=$(echo "$said" | tr -s ' \\t' ' ' | sed -n '/^ *[0-9][0-9]* [0-9][0-9]* [0-9.]* [0-9]*\\.[0-9]* /p')
    reached=$(echo "${line# }" | cut -d ' ' -f 4)
    [ -n "$reached" ] || exit 3
    set -- "$@" "$reached"
done
[ $# -gt 0 ] || exit 3
judge "$(lowest "$@")"
"""
_DCGM_DIAG: Final = """
# Without its host engine it can't look, and that says nothing about the GPUs.
need dcgmi
dcgmi discovery -l >/dev/null || exit 3
dcgmi diag -r LEVEL || exit 1
"""


def published() -> Mapping[str, Mapping[str, float | None]]:
    """Return the thresholds of health/thresholds: product → key → number, None where nobody knows one."""
    products: dict[str, dict[str, float | None]] = json.loads(_THRESHOLDS.read_text())
    return products


def all_reduce(check: LongCheck) -> str:
    """Return the script's part for an all-reduce."""
    sizes = "-b 1G -e 4G -f 2" if check.least is not None else '-b "${MESSAGE}G" -e "${MESSAGE}G"'
    run = f'all_reduce_perf {sizes} -g "$gpus"'
    if check.nodes == 1:
        return f"need all_reduce_perf\n{_GPUS}{_SEVERAL}{_product(check)}said=$({run}){_ENDED}{_LOWEST}{_ALL_REDUCED}"
    across = f'{_ACROSS}said=$(mpiexec -n "$SLURM_JOB_NUM_NODES" {run})'
    return f"need all_reduce_perf mpiexec srun\n{_GPUS}{across}{_ENDED}{_LOWEST}{_ALL_REDUCED}"


def nvbandwidth(check: LongCheck) -> str:
    """Return the script's part for copies between the host and the GPUs."""
    return f"need nvbandwidth\n{_GPUS}{_product(check)}{_LOWEST}{_NVBANDWIDTH}"


def ib_write_bw(check: LongCheck) -> str:
    """Return the script's part for RDMA writes between two nodes."""
    return f"need ib_write_bw srun\n{_LOWEST}{_IB_WRITE_BW}"


def gpu_burn(check: LongCheck) -> str:
    """Return the script's part for a burn-in of half the time limit."""
    return f"need gpu_burn nvidia-smi\n{_GPUS}{_GPU_BURN.replace('SECONDS', str(check.minutes * 30))}"


def dcgm_diag(check: LongCheck) -> str:
    """Return the script's part for DCGM's own tests."""
    return _DCGM_DIAG.replace("LEVEL", str(check.builtin).rpartition("-")[2])


def _product(check: LongCheck) -> str:
    """Return the lines that set the product's threshold if the check has none of its own."""
    if check.least is not None or check.builtin is None:
        return ""
    name = "s/^GPU [0-9]*: \\(.*\\) (UUID.*/\\1/p"
    known = "".join(f"'{product}') {variables} ;;\n" for product, variables in _known(check.builtin))
    machine = f'[ "$gpus" -eq {_PRODUCT_GPUS} ] || exit 3\n' if check.builtin is Builtin.ALL_REDUCE else ""
    return f"{machine}case $(nvidia-smi -L | sed -n '{name}' | sort -u) in\n{known}*) exit 3 ;;\nesac\n"


def _known(builtin: Builtin) -> Iterator[tuple[str, str]]:
    """Return the products whose bandwidth is known, each with the variables of a script."""
    for product, numbers in published().items():
        values = {variable: numbers.get(key) for variable, key in _PRODUCT_VARIABLES[builtin].items()}
        if None not in values.values():
            yield product, " ".join(f"{variable}={value}" for variable, value in values.items())
