"""A pod's own state: "ready", or why it is not. Its readiness probe reads the file (ready.py)."""

from slurm_node.pod import paths

READY = "ready"


def read(without: str = "starting") -> str:
    """Returns it.

    Args:
        without: returned while the pod has not written any yet.
    """
    return paths.NODE_STATE.read_text() if paths.NODE_STATE.exists() else without


def write(state: str) -> bool:
    """Writes the state; returns whether it changed."""
    if read("") == state:
        return False
    paths.OWN_RUN.mkdir(parents=True, exist_ok=True)
    aside = paths.NODE_STATE.with_suffix(".new")
    aside.write_text(state)
    aside.replace(paths.NODE_STATE)
    return True
