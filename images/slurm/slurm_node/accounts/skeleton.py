"""The skeleton of a new home."""

from pathlib import Path

from slurm_node.pod import resolve_beneath
from slurm_node.pod.log import NodeError, say
from slurm_node.pod.system import opened_inside


def copy(root: Path, home: Path) -> None:
    """Fills a new home from the root's /etc/skel, if it has one."""
    try:
        with resolve_beneath.in_words("/etc/skel"), opened_inside(root, "/etc/skel/.") as skeleton:
            resolve_beneath.copy_out(skeleton, home)
    except FileNotFoundError:
        return
    except NodeError as error:
        say(f"a home begins without the skeleton: {error}")
