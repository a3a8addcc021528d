"""Runs slurmctld without accounting until slurmdbd was reachable for the first time.

A slurmctld that has seen slurmdbd once starts from its own state while slurmdbd is away, and reports everything
afterwards. A slurmctld that never saw it waits for ever, and nobody could run a job. So it then starts without
accounting, and restarts with it as soon as slurmdbd answers. Jobs survive that restart.

A slurmdbd with a new, empty database does not know the cluster. A slurmctld registers there only at its start, and not
if it can't read associations. Then it is restarted too.
"""

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path

from contract import names
from slurm_node.pod import paths, supervise
from slurm_node.pod.log import say
from slurm_node.pod.settings import Accounting

SLURMCTLD = f"{paths.PREFIX}/sbin/slurmctld"
SCRATCH = paths.CONTROLLER_RUN / "without-accounting"
MARKER = paths.STATE / "accounting-was-there"
ASSOCIATIONS = paths.STATE / "assoc_mgr_state"
CLUSTER_NAME = paths.STATE / "clustername"
PATIENCE_SECONDS = 60.0
"""Time for the slurmdbd of a new cluster to start, before jobs may run unrecorded."""
TICK_SECONDS = 1.0
ANSWER_SECONDS = 5.0
"""Time for an answer of slurmctld, or of slurmdbd through sacctmgr."""
STOP_SECONDS = 110.0
KNOWN_EVERY_SECONDS = 10.0
FORGOTTEN_EVERY_SECONDS = 600.0
"""Shortest time between restarts of slurmctld for a database that does not know the cluster.

A restart registers the cluster. If slurmdbd refuses that, more restarts do not help.
"""
_WEIGHTS = re.compile(r"(?im)(?P<key>(\bTRESBillingWeights|^PriorityWeightTRES)\s*=\s*)(?P<weights>\S+)")
STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT}


class Mode(Enum):
    """The way slurmctld runs: not at all yet, without accounting, or with it."""

    NOT_YET = auto()
    WITHOUT_ACCOUNTING = auto()
    ACCOUNTED = auto()


def mode(now: Mode, *, known: bool, answers: bool, waited_seconds: float) -> Mode:
    """Decides how slurmctld should run.

    Args:
        now: how it runs.
        known: slurmctld's state has what it once learned from slurmdbd.
        answers: slurmdbd takes connections, which it does once it reached its database.
        waited_seconds: since the pod started.
    """
    if known or answers or now is Mode.ACCOUNTED:
        return Mode.ACCOUNTED
    return Mode.WITHOUT_ACCOUNTING if waited_seconds >= PATIENCE_SECONDS else now


def without_accounting(slurm_conf: str) -> str:
    """Returns slurm.conf without what needs slurmdbd."""
    own = _WEIGHTS.sub(_own_weights, slurm_conf)
    return re.sub(r"(?im)^(AccountingStorage|PriorityWeight(Fairshare|QOS))\w*\s*=.*\n", "", own)


def _own_weights(pair: re.Match[str]) -> str:
    """The weights of resources that Slurm counts by itself: it ends with those of others, such as GRES/gpu."""
    weights = [weight for weight in pair["weights"].split(",") if "/" not in weight]
    return f"{pair['key']}{','.join(weights)}" if weights else ""


def without_id(cluster_name: str) -> str:
    """Returns the state file `clustername` (NAME|ID) without the cluster's ID, which slurmdbd assigns again."""
    return cluster_name.partition("|")[0]


def is_forgotten(clusters: str, cluster_name: str) -> bool:
    """Return whether slurmdbd does not know this cluster.

    Args:
        clusters: the names that slurmdbd knows, one a line.
        cluster_name: the state file `clustername`: NAME|ID.
    """
    name = without_id(cluster_name).strip()
    return bool(name) and name not in clusters.split()


def run(accounting: Accounting, environment: Mapping[str, str]) -> int:
    """Keeps slurmctld running until the pod is told to end or slurmctld itself ends; returns its status.

    Args:
        accounting: where slurmdbd answers.
        environment: what is added to the pod's environment for slurmctld.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {*STOP_SIGNALS, signal.SIGCHLD})
    controller = _Controller(accounting, environment)
    while True:
        status = controller.tick()
        if status is not None:
            return status
        received = signal.sigtimedwait({*STOP_SIGNALS, signal.SIGCHLD}, TICK_SECONDS)
        if received is not None and received.si_signo in STOP_SIGNALS:
            controller.stop()
            return 0


@dataclass(slots=True)
class _Controller:
    accounting: Accounting
    environment: Mapping[str, str]
    began: float = field(default_factory=time.monotonic)
    mode: Mode = Mode.NOT_YET
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    untold: bool = False
    look_at: float = 0.0
    register_at: float = 0.0

    def tick(self) -> int | None:
        """Does one step; returns slurmctld's status when it ended by itself."""
        if self.process is not None and self.process.poll() is not None:
            return self.process.returncode if self.process.returncode >= 0 else 128 - self.process.returncode
        if self.mode is not Mode.ACCOUNTED:
            self._choose()
        if self.mode is Mode.WITHOUT_ACCOUNTING:
            write_scratch()
        if self.mode is Mode.ACCOUNTED:
            self._remember()
            self._tell_nodes()
            self._register()
        return None

    def stop(self) -> None:
        """Ends slurmctld, which writes its state first."""
        if self.process is not None:
            supervise.end(self.process, "slurmctld", STOP_SECONDS)
            self._remember()
        self.process = None

    def _choose(self) -> None:
        known = MARKER.exists()
        answers = not known and _answers(self.accounting)
        chosen = mode(self.mode, known=known, answers=answers, waited_seconds=time.monotonic() - self.began)
        if chosen is self.mode:
            return
        if self.mode is Mode.WITHOUT_ACCOUNTING:
            say("slurmdbd answers: slurmctld starts again, with accounting")
            self.stop()
            self.untold = True
        self.mode = chosen
        if chosen is Mode.WITHOUT_ACCOUNTING:
            say(f"no slurmdbd in {PATIENCE_SECONDS:.0f} s: slurmctld starts without accounting until there is one")
            write_scratch()
        elif not known and CLUSTER_NAME.exists():
            CLUSTER_NAME.write_text(without_id(CLUSTER_NAME.read_text()))
        self._start()

    def _start(self) -> None:
        more = {"SLURM_CONF": str(SCRATCH / names.SLURM_CONF)} if self.mode is Mode.WITHOUT_ACCOUNTING else {}
        self.started = time.time()
        self.look_at = time.monotonic() + KNOWN_EVERY_SECONDS
        self.process = subprocess.Popen(
            [SLURMCTLD, "-D"],
            env=os.environ | self.environment | more,
            preexec_fn=_unblock,  # noqa: PLW1509 - this program has one thread
            stdin=subprocess.DEVNULL,
        )

    def _register(self) -> None:
        """Restarts slurmctld when slurmdbd answers but does not know the cluster: its database is new and empty."""
        now = time.monotonic()
        if now < self.look_at or now < self.register_at or not CLUSTER_NAME.exists():
            return
        self.look_at = now + KNOWN_EVERY_SECONDS
        clusters = _clusters()
        if clusters is None or not is_forgotten(clusters, CLUSTER_NAME.read_text()):
            return
        say("slurmdbd does not know this cluster: slurmctld starts again, to make itself known")
        self.register_at = now + FORGOTTEN_EVERY_SECONDS
        self.stop()
        self._start()

    def _remember(self) -> None:
        """Notes that slurmctld has saved slurmdbd's data, so that from now on it can start while slurmdbd is away."""
        if self.mode is not Mode.ACCOUNTED or MARKER.exists() or not ASSOCIATIONS.exists():
            return
        if ASSOCIATIONS.stat().st_mtime > self.started:
            MARKER.touch()

    def _tell_nodes(self) -> None:
        """Makes logins and nodes fetch the configuration with accounting, once slurmctld answers."""
        if not self.untold:
            return
        try:
            told = subprocess.run(["scontrol", "reconfigure"], capture_output=True, timeout=ANSWER_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return
        self.untold = told.returncode != 0


def write_scratch(source: Path = paths.ETC_SLURM, target: Path = SCRATCH) -> None:
    """Updates the configuration without accounting. All other files are the cluster's own."""
    target.mkdir(exist_ok=True)
    there = [file for file in source.iterdir() if not file.name.startswith(".") and file.is_file()]
    # Slurm reads some files, such as topology.yaml, wherever they are.
    for gone in {file.name for file in target.iterdir()} - {file.name for file in there}:
        (target / gone).unlink()
    for file in there:
        content = file.read_text()
        content = without_accounting(content) if file.name == names.SLURM_CONF else content
        copy = target / file.name
        if not copy.exists() or copy.read_text() != content:
            copy.write_text(content)


def _answers(accounting: Accounting) -> bool:
    try:
        socket.create_connection((accounting.host, accounting.port), timeout=1).close()
    except OSError:
        return False
    return True


def _clusters() -> str | None:
    """The clusters that slurmdbd knows; None when it does not answer."""
    command = ["sacctmgr", "--noheader", "--parsable2", "show", "cluster", "format=cluster"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return None
    return done.stdout if done.returncode == 0 else None


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
