"""The file of a run while it is written, and the last looks."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from bench.faults.verdict import history


class Record:
    """The file of a run, and the last looks."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self.file = file
        self._out = file.open("w")
        self._lock = threading.Lock()
        self.kubernetes: history.Kubernetes | None = None
        self.slurm: history.Slurm | None = None
        self.states: dict[str, dict[str, str]] = {}
        """State of each job by its id, by its name."""

    def write(self, record: str, **fields: Any) -> None:
        """Write a record, and remember a look."""
        with self._lock:
            if self._out.closed:
                return
            self._out.write(json.dumps({"record": record, **fields}) + "\n")
            self._out.flush()
            if record == "kubernetes":
                self.kubernetes = history.kubernetes(fields)
            elif record == "slurm":
                self.slurm = seen = history.slurm(fields)
                for job in seen.jobs:
                    self.states.setdefault(job.name, {})[job.id] = job.state

    def close(self) -> None:
        """Write nothing more."""
        with self._lock:
            self._out.close()
