"""People whom the administrator adds for a test."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def person(slurm, name: str, more: str = "") -> Iterator[str]:
    # Slurm is asked by the person who came by sudo: for accounts an administrator's.
    level = "sacctmgr -nP show user admin format=adminlevel"
    slurm.wait("the administrator is appointed", lambda: slurm.sh(level).ok() == "Administrator", 120)
    make = f"srun -n1 -w cpu-1 sudo slurm-user add {name} --key ~/.ssh/authorized_keys {more}"
    slurm.sh(make, user="admin").ok()
    try:
        yield name
    finally:
        # Jobs of others are an administrator's to see and to cancel.
        slurm.sh(f"scancel --user={name}", user="admin").ok()
        slurm.sh(f"sudo pkill -KILL -u {name}; true").ok()
        slurm.wait(f"{name} has no jobs", lambda: slurm.sh(f"squeue -h -u {name}", user="admin").ok() == "", 60)
        removed = slurm.sh(f"sudo slurm-user remove {name} --delete-home", user="admin")
        slurm.wait(f"{name} is gone", lambda: removed.status == 0 or slurm.sh(f"id {name}").status != 0, 30)
