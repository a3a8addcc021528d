"""Checks that no process uses a GPU on a node without jobs."""

from contract import reasons
from node_health.check import WITHOUT_JOBS, Applies, CannotJudgeError, Check, Machine
from node_health.sources import gpu_facts, nvml
from node_health.sources.gpu_facts import Fact, Gpu, Snapshot
from node_health.verdict import Finding, passes, warns


def judge(snapshot: Snapshot, machine: Machine) -> Finding:
    """WARNING when one does."""

    def one(gpu: Gpu) -> Finding:
        count = gpu.read(Fact.PROCESSES)
        if count and snapshot.idle is None:
            raise CannotJudgeError("/proc does not tell whether a job runs here")
        if count and snapshot.idle:
            return warns(f"{gpu}: {count} processes use it without a job")
        return passes("no process but those of jobs")

    return gpu_facts.judged(snapshot, Fact.PROCESSES, one)


CHECK = Check(
    reasons.Check.GPU_PROCESSES,
    nvml.look,
    judge,
    fails="",
    warns="processes use a GPU on a node without jobs",
    remedy="kill them: `nvidia-smi --query-compute-apps=pid,name --format=csv` on the Kubernetes node",
    applies=Applies.NVIDIA,
    contexts=WITHOUT_JOBS,
)
