"""Groups of cgroup v2 that tests make."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path


def make(group: Path) -> Path:
    """Makes a group that hands all controllers down, as its parent is to do."""
    group.mkdir()
    for parent in (group.parent, group):
        for name in (parent / "cgroup.controllers").read_text().split():
            (parent / "cgroup.subtree_control").write_text(f"+{name}")
    return group


def below(group: Path) -> set[str]:
    """The groups in a group, as paths below it."""
    folders = (Path(folder) for folder, _, _ in os.walk(group))  # It passes by what goes meanwhile.
    return {str(path.relative_to(group)) for path in folders} - {"."}


def remove(group: Path, seconds: float = 60) -> None:
    """Ends what runs in a group and removes it, as a runtime does with that of a pod."""
    deadline = time.monotonic() + seconds
    (group / "cgroup.kill").write_text("1")
    while group.exists() and time.monotonic() < deadline:
        for folder in sorted((path for path in (group, *group.rglob("*")) if path.is_dir()), reverse=True):
            with suppress(OSError):
                folder.rmdir()
        time.sleep(0.05)  # Between two tries: nothing tells when the kernel has let the last process go.
    assert not group.exists(), f"{group} still holds {[p.name for p in group.rglob('*') if p.is_dir()]}"
