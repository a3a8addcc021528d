"""Carries a schedule out: a thread for each lane, and never two faults that exclude each other at one time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bench.faults.cluster import Cluster
from bench.faults.injections import begin
from bench.faults.kinds import KINDS, exclude_each_other
from bench.faults.record import Record
from bench.faults.schedule import LANES, Fault
from devcluster.machine.progress import say

LEAST_SECONDS = 5.0
"""Shortest duration of a fault, however late it began."""


class Conductor:
    """Begins and ends the faults of a schedule.

    Args:
        cluster: the dev cluster.
        record: where what was done is written.
        faults: the schedule.
    """

    def __init__(self, cluster: Cluster, record: Record, faults: Sequence[Fault]) -> None:
        self._cluster, self._record, self._faults = cluster, record, faults
        self._active: list[Fault] = []
        self._changed, self._stopped = threading.Condition(), threading.Event()
        self._began = 0.0

    def run(self) -> None:
        """Run the schedule's faults. An interrupt ends the faults that have begun."""
        self._began = time.monotonic()
        lanes = [threading.Thread(target=self._lane, args=(lane,), daemon=True) for lane in range(LANES)]
        for lane in lanes:
            lane.start()
        try:
            for thread in lanes:
                while thread.is_alive():
                    thread.join(1)  # Python takes a Ctrl-C only between two such calls.
        except KeyboardInterrupt:
            say("interrupted: ending the faults that have begun")
            self._stopped.set()
            for thread in lanes:
                thread.join()
            raise

    def _lane(self, lane: int) -> None:
        for fault in self._faults:
            if fault.lane != lane:
                continue
            self._stopped.wait(max(0.0, fault.start - self._passed()))
            if self._stopped.is_set():
                return
            with self._alone(fault):
                self._run_fault(fault)

    def _passed(self) -> float:
        return time.monotonic() - self._began

    @contextmanager
    def _alone(self, fault: Fault) -> Iterator[None]:
        """Context that waits for the end of faults that this one excludes, and keeps them from beginning."""

        def free() -> bool:
            mine = fault.kind, fault.target
            return not any(exclude_each_other(mine, (other.kind, other.target)) for other in self._active)

        with self._changed:
            self._changed.wait_for(free)
            self._active.append(fault)
        try:
            yield
        finally:
            with self._changed:
                self._active.remove(fault)
                self._changed.notify_all()

    def _run_fault(self, fault: Fault) -> None:
        number = fault.number
        say(f"{self._passed():5.0f} s  begins: {fault.title}: {KINDS[fault.kind].what}")
        self._record.write("begin", number=number, kind=fault.kind, target=fault.target, began=time.time())
        try:
            begun = begin(self._cluster, fault)
        except Exception as failure:  # Whatever it is: the lane's other faults come, and the verdict tells.
            say(f"{self._passed():5.0f} s  did not begin: {fault.title}: {failure}")
            self._record.write("begun", number=number, done=time.time(), over=time.time(), trouble=repr(failure))
            return
        self._record.write("begun", number=number, done=time.time(), note=dict(begun.note))
        self._stopped.wait(max(LEAST_SECONDS, fault.end - self._passed()))
        over = time.time()
        try:
            begun.end()
        except Exception as failure:  # Whatever it is: the lane's other faults come, and the verdict tells.
            say(f"{self._passed():5.0f} s  did not end: {fault.title}: {failure}")
            self._record.write("end", number=number, over=over, trouble=f"its end failed: {failure!r}")
            return
        say(f"{self._passed():5.0f} s  over:   {fault.title}")
        self._record.write("end", number=number, over=over)
