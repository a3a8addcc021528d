"""A node set whose workers have fake GPUs."""

from __future__ import annotations

from devcluster.fakes import gpu_scenario

GPUS = {
    "name": "fake-gpu",
    "replicas": 1,
    "resources": {"cpu": 4, "cpuRequest": "100m", "memory": "512Mi", "reservedMemory": "256Mi"},
    "gpus": {"type": "fake", "perNode": 8, "devices": "/dev/fakegpu[0-7]", "runtimeClass": "none"},
}
PARTITION = {"name": "gpu", "nodeSets": ["fake-gpu"]}
NODE = "fake-gpu-0"
OPENS = (
    "import glob, json, os\n"
    "seen = {}\n"
    "for file in sorted(glob.glob('/dev/fakegpu*')):\n"
    "    try:\n"
    "        os.close(os.open(file, os.O_RDWR)); seen[file] = 'opens'\n"
    "    except OSError as error:\n"
    "        seen[file] = error.strerror\n"
    "print(json.dumps({'seen': seen, 'visible': os.environ.get('CUDA_VISIBLE_DEVICES'),\n"
    "                  'gpus': os.environ.get('SLURM_STEP_GPUS') or os.environ.get('SLURM_JOB_GPUS')}))\n"
)


def tell(slurm, **scenario) -> None:
    """Say what the node's fakes answer, in its pod and in its jail."""
    text = gpu_scenario.text(**scenario)
    slurm.on_pod(
        NODE,
        f"cat >{gpu_scenario.PATH} <<'END'\n{text}END\ncp {gpu_scenario.PATH} /run/jail{gpu_scenario.PATH_IN_JAIL}",
    ).ok()


def reason(slurm) -> str:
    return slurm.sh(f"sinfo -h -n {NODE} -o %E").ok()


def checked(slurm) -> str:
    """Return the drain's reason after a run; Slurm's own round is not waited for (test_health.py does)."""
    slurm.on_pod(NODE, "/usr/sbin/node-health-program").ok()
    return reason(slurm)


def drained_by(slurm, check: str) -> str:
    """Return the reason if a run drains the node for that check, else nothing."""
    said = checked(slurm)
    return said if said.startswith(f"pulumi-slurm:health {check}: ") else ""
