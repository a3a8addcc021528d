"""After all that the tests did: nothing of a node is on the shared volume, but what people have put there."""

from __future__ import annotations

import json
import shlex
from typing import Any

LOOK = """
import json, os, stat, sys
from contextlib import suppress
from pathlib import Path
def look(root, file):
    facts = file.lstat()
    if not (stat.S_ISREG(facts.st_mode) or stat.S_ISLNK(facts.st_mode)):
        found["kinds"].append(str(file))
    # Programs and libraries are the image's; what a node would write of itself is small and a setting.
    elif stat.S_ISREG(facts.st_mode) and facts.st_size < 1 << 20 and file.is_relative_to(root / "etc"):
        found["tell of a node"] += [str(file)] if any(word in file.read_bytes() for word in telling) else []
volume, telling = Path("/mnt/jail"), [word.encode() for word in sys.argv[1:]]
found = {"in mount points": [], "kinds": [], "tell of a node": []}
for root in (volume / "roots").iterdir():
    for name in ("run", "dev", "proc", "sys", "tmp", "opt/slurm", "var/spool/slurmd"):
        found["in mount points"] += [str(path) for path in (root / name).iterdir()]
    for name in ("hosts", "hostname", "resolv.conf", "nccl.conf"):
        file = root / "etc" / name
        found["in mount points"] += [str(file)] if file.exists() and file.stat().st_size else []
    for where, folders, files in os.walk(root):
        for name in files:
            # Account files are replaced all the time.
            with suppress(FileNotFoundError):
                look(root, Path(where, name))
print(json.dumps(found))
"""


def of_nodes(slurm: Any) -> dict[str, list[str]]:
    """Looks through all roots of the volume, and returns what should be in none, by what is wrong with it."""
    pods = [pod for pod in slurm.get("pods")["items"] if "slurm-login" in pod["metadata"]["name"]]
    pods += [pod for pod in slurm.get("pods")["items"] if pod["metadata"]["name"].startswith("cpu-")]
    telling = [word for pod in pods for word in (pod["metadata"]["name"], pod["status"].get("podIP", "")) if word]
    assert len(telling) >= 6
    look = shlex.join(["python3", "-c", LOOK, *telling])
    found: dict[str, list[str]] = json.loads(slurm.on_pod("slurm-login-0", look, seconds=120).ok())
    return {wrong: files for wrong, files in found.items() if files}
