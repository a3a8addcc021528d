"""What a pod says of itself: "ready", or why it is not. Its readiness probe reads it (ready.py)."""

from slurm_node.pod import paths

READY = "ready"


def read(without: str = "starting") -> str:
    """Returns it.

    Args:
        without: while the pod has said nothing yet.
    """
    return paths.NODE_STATE.read_text() if paths.NODE_STATE.exists() else without


def write(state: str) -> bool:
    """Writes it down; returns whether it is another one than before."""
    if read("") == state:
        return False
    paths.OWN_RUN.mkdir(parents=True, exist_ok=True)
    aside = paths.NODE_STATE.with_suffix(".new")
    aside.write_text(state)
    aside.replace(paths.NODE_STATE)
    return True
