"""A node set whose workers have fake GPUs."""

from __future__ import annotations

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
