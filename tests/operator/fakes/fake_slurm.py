"""The fake slurmctld of the operator's tests: records of nodes and jobs, and what users and slurmds do to them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Literal

from tests.operator.fakes.fake_reservations import Reservations, moment

_Silent = Literal["refuse", "hang", "drip"]
_Wrong = Literal["garbage", "half", "no list", "errors in 200", "slurmctld away", "cut off", "unauthorized"]
Fault = Literal["", _Silent, _Wrong]
"""A way in which slurmrestd fails; empty while it works."""
NEVER = {"set": False, "infinite": False, "number": 0}
"""A time that is not set, in slurmrestd's form."""


class FakeSlurm:
    """slurmctld's records, and what was asked of it. Use it under its lock."""

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.lock = threading.RLock()
        self.nodes: dict[str, dict[str, Any]] = {}
        self.jobs: dict[int, dict[str, Any]] = {}
        self.reservations = Reservations()
        self.last_update = int(time.time())
        self.fault: Fault = ""
        self.partitions: dict[str, str] = {}
        self.levels: dict[str, str] = {"root": "Administrator"}
        self.qos = {"normal": 0}
        self.parameters = ["enable_configless"]
        self.communication: list[str] = []
        self.started = int(time.time())
        self.on_reconfigure: Callable[[], None] = lambda: None
        self.calls: list[tuple[str, str]] = []
        self.not_modified = 0
        self.killed: list[int] = []
        self.deep = 0
        """So many more jobs wait, which nobody may list."""
        self.behind = 0
        """Seconds that slurmctld's clock is behind."""
        self.jobs_fail = False
        self.kept: set[str] = set()
        """Nodes whose records are not deleted."""
        self.memory = False
        """True if memory is a consumable resource, which a suspended job keeps."""
        self._released = threading.Event()

    def register(self, name: str, *, features: tuple[str, ...] = (), new: bool = False) -> None:
        """A slurmd says hello: a known node keeps its record, and its drain, one that says it is new starts drained."""
        with self.lock:
            known = self.nodes.get(name)
            held = [flag for flag in known["state"] if flag in ("DRAIN", "FAIL")] if known else ["DRAIN"] * new
            down = known is not None and "DOWN" in known["state"] and not held
            self.nodes[name] = {
                "name": name,
                "state": ["IDLE", *held, "DYNAMIC_NORM"],
                # ReturnToService=2 takes back that a node is DOWN, whoever said so.
                "reason": ("" if down else known["reason"]) if known else "pulumi-slurm:new" * new,
                "reason_set_by_user": ("" if down else known["reason_set_by_user"]) if known else "root" * new,
                "alloc_cpus": 0,
                "alloc_memory": 0,
                "comment": known["comment"] if known else "",
                "features": list(features),
                "active_features": list(features),
                "partitions": ["main"],
                "version": "26.05.5",
                "weight": 100,
                "topology": known["topology"] if known else "",
                "next_state_after_reboot": ["INVALID"],
                "reason_changed_at": NEVER,
                "slurmd_start_time": moment(int(time.time())),
                # A record keeps the size with which it was made.
                **{key: known[key] for key in ("cpus", "real_memory") if known and key in known},
            }
            self._changed()

    def lose(self, name: str) -> None:
        """The node's slurmd is gone: running jobs die with it."""
        with self.lock:
            for job in self.jobs.values():
                if name == job["nodes"] and job["job_state"] in (["RUNNING"], ["SUSPENDED"]):
                    job["job_state"] = ["NODE_FAIL"]
                    self.killed.append(job["job_id"])
            if name in self.nodes:
                record = self.nodes[name]
                held = [flag for flag in record["state"] if flag in ("DRAIN", "FAIL")]
                record["state"] = ["DOWN", *held, "DYNAMIC_NORM"]
            self._changed()

    def drain(self, name: str, reason: str, user: str) -> None:
        """Somebody drains a node."""
        with self.lock:
            record = self.nodes[name]
            # As Slurm does it: a drain ends FAIL, and without a reason that of before stays with its author.
            record["state"] = [*(flag for flag in record["state"] if flag not in ("DRAIN", "FAIL")), "DRAIN"]
            if reason:
                record["reason"], record["reason_set_by_user"] = reason, user
                record["reason_changed_at"] = moment(int(time.time()))
            self._changed()

    def undrain(self, name: str) -> None:
        """Somebody lifts a drain."""
        with self.lock:
            record = self.nodes[name]
            record["state"] = [state for state in record["state"] if state != "DRAIN"]
            record["reason"], record["reason_set_by_user"] = "", ""
            self._changed()

    def take_down(self, name: str, reason: str, user: str) -> None:
        """Somebody sets a node DOWN: its jobs are requeued if they may be."""
        with self.lock:
            for job in self.jobs.values():
                if job["nodes"] == name and job["job_state"] in (["RUNNING"], ["SUSPENDED"], ["CONFIGURING"]):
                    job["job_state"] = ["PENDING"] if job["requeue"] else ["NODE_FAIL"]
                    job["nodes"] = "" if job["requeue"] else name
                    self.killed += [] if job["requeue"] else [job["job_id"]]
            record = self.nodes[name]
            record["alloc_cpus"], record["state"] = 0, ["DOWN", *record["state"][1:]]
            record["alloc_memory"] = 0
            record["reason"], record["reason_set_by_user"] = reason, user
            record["reason_changed_at"] = moment(int(time.time()))
            self._changed()

    def reboot(self, name: str) -> None:
        """Somebody asks for `scontrol reboot` of an idle node: Slurm issues it, and adds its words to the reason."""
        with self.lock:
            record = self.nodes[name]
            record["state"] = ["DOWN", *record["state"][1:], "REBOOT_ISSUED"]
            record["reason"] = f"{record['reason'] or 'reboot requested'} : reboot issued"
            record["reason_set_by_user"] = "slurm"
            record["reason_changed_at"] = moment(int(time.time()))
            self._changed()

    def shown(self, record: dict[str, Any]) -> dict[str, Any]:
        """A record as slurmctld shows it now, with the flags of reservations that have begun."""
        return {**record, "state": [*record["state"], *self.reservations.flags_of(record["name"])]}

    def set_base(self, name: str, base: str) -> None:
        """Set a node's base state, keeping its flags."""
        with self.lock:
            record = self.nodes[name]
            record["state"] = [base, *record["state"][1:]]
            self._changed()

    def run_job(
        self, node: str, partition: str = "main", state: str = "RUNNING", *, requeue: bool = True, names: str = ""
    ) -> int:
        """A job starts on a node, or waits if `node` is empty; suspended ones free their processors, as in Slurm.

        Args:
            node: where it runs.
            partition: where it was submitted to.
            state: its own.
            requeue: whether it may be.
            names: nodes that it asked for.
        """
        with self.lock:
            number = max(self.jobs, default=0) + 1
            self.jobs[number] = {
                "job_id": number,
                "job_state": [state],
                "nodes": node,
                "partition": partition,
                "state_reason": "None",
                "requeue": requeue,
                "batch_flag": True,
                "required_nodes": names,
                "excluded_nodes": "",
                "user_name": "alice",
                "name": "test",
            }
            if node:
                record = self.nodes[node]
                record["alloc_cpus"] = 1 if state == "RUNNING" else 0
                record["alloc_memory"] = 100 * (self.memory and state in ("RUNNING", "SUSPENDED", "CONFIGURING"))
                record["state"] = ["MIXED" if state == "RUNNING" else "IDLE", *record["state"][1:]]
            self._changed()
            return number

    def submit(self, asked: dict[str, Any]) -> int:
        """A client submits a job for a node that it names."""
        number = self.run_job("", asked["partition"], "PENDING", requeue=asked["requeue"])
        mine = {"name": asked["name"], "user_id": int(asked["user_id"]), "hold": asked["hold"]}
        mine["reservation"] = asked.get("reservation", "")
        self.jobs[number] |= {**mine, "required_nodes": ",".join(asked["required_nodes"])}
        return number

    def fail_job(self, number: int, status: int, comment: str) -> None:
        """A job runs, and its script leaves a comment and ends with that exit status."""
        with self.lock:
            code = {"status": ["ERROR"], "return_code": {"set": True, "infinite": False, "number": status}}
            self.jobs[number] |= {"job_state": ["FAILED"], "exit_code": code, "comment": comment}
            self._changed()

    def end_job(self, number: int) -> None:
        """A job ends by itself."""
        with self.lock:
            job = self.jobs[number]
            job["job_state"] = ["COMPLETED"]
            if job["nodes"]:
                record = self.nodes[job["nodes"]]
                record["alloc_cpus"], record["state"] = 0, ["IDLE", *record["state"][1:]]
                record["alloc_memory"] = 0
            self._changed()

    def changes(self) -> list[tuple[str, str]]:
        """The calls that changed something."""
        with self.lock:
            return [call for call in self.calls if call[0] != "GET" or "reconfigure" in call[1]]

    def fail(self, fault: Fault) -> None:
        """Begin to fail in one way, or to work again."""
        with self.lock:
            self.fault = fault
            self._released.set()
            self._released = threading.Event()

    def wait_released(self) -> None:
        """Hang until the fault ends."""
        self._released.wait(60)

    def _changed(self) -> None:
        self.last_update = int(time.time())
