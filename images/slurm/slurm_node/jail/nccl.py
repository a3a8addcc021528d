"""NCCL's variables on this node, for every job.

NCCL reads /etc/nccl.conf. A variable of a job's own environment replaces it:
https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html. The file is this node's own: nodes differ in fabric,
and the root is shared.
"""

from collections.abc import Iterable
from pathlib import Path

from slurm_node.pod import paths


def text(variables: Iterable[tuple[str, str]]) -> str:
    """Returns the file's content."""
    return "".join(f"{name}={value}\n" for name, value in variables)


def write(variables: Iterable[tuple[str, str]], file: Path = paths.OWN_RUN / "nccl.conf") -> Path | None:
    """Writes the file and returns it; None if no variable is set."""
    content = text(variables)
    if not content:
        return None
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    file.chmod(0o444)
    return file
