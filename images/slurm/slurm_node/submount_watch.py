"""Mounts submounts again that went away while the node runs.

The folder under a submount lies in the shared root. Who removes it on a node that has nothing mounted there takes the
mount away from all others: so does the kernel. Until it is back, jail.c refuses jobs and logins.
"""

from pathlib import Path

from slurm_node import paths, tree
from slurm_node.log import NodeError, say
from slurm_node.settings import Jail
from slurm_node.system import mount_points


class SubmountWatch:
    """Looks at the mount table alone, which no storage can hold up, until a mount is missing.

    Args:
        jail: whose submounts.
        view: where the tree is.
    """

    def __init__(self, jail: Jail, view: Path = paths.TREE) -> None:
        self._mounts = [tree.of_submount(each) for each in jail.submounts]
        self._view = view
        self._said = ""

    def tick(self) -> None:
        """Called about twice a second."""
        there = mount_points()
        for wanted in self._mounts:
            if self._view / wanted.target.lstrip("/") not in there:
                self._mount_again(wanted)

    def _mount_again(self, wanted: tree.Mount) -> None:
        try:
            tree.carry_out(wanted, self._view)
            sentence = f"mounted {wanted.target} again: its folder in the shared root had been removed or renamed"
        except (NodeError, OSError) as error:
            sentence = f"can't mount {wanted.target} again: {error}"
        if sentence != self._said:
            say(sentence)
        self._said = sentence
