"""Jobs of an ordinary user that must end well, whatever happens: short arrays, long steps, requeueable ones."""

from __future__ import annotations

import itertools
import shlex
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from bench.faults.cluster import CallFailed, Cluster
from bench.faults.record import Record
from bench.faults.verdict.history import CANARY, ENDED
from devcluster.machine.progress import say

OUTSTANDING = 3
"""Canaries that wait or run at one time: both nodes have work, and the queue is short at the end."""
PAUSE_SECONDS = 3.0
SUBMIT_SECONDS = 25
COLLECT_SECONDS = 40
LOST_SECONDS = 90.0
"""Time after which nobody waits for a canary that Slurm does not show: sbatch was refused, or slurmctld lost it."""


@dataclass(frozen=True, slots=True)
class Form:
    """A form of canary: how many tasks its array has, its steps, and their length."""

    name: str
    options: str
    steps: int
    seconds: int
    tasks: int = 1


FORMS = (
    Form("array", "--no-requeue --array=0-3", steps=2, seconds=2, tasks=4),
    Form("long-step", "--no-requeue", steps=1, seconds=50),
    Form("requeueable", "--requeue", steps=3, seconds=10),
)


def script(form: Form) -> str:
    """Return the batch script of a canary. It prints a line at its begin, after each step, and at its end.

    A line's last word is the time, in seconds since the epoch.
    """
    step = f"srun -n1 sleep {form.seconds} && say step $step"
    say = 'say() { echo "$@" $(date +%s); }'
    return f"set -e; {say}; say begin; for step in $(seq {form.steps}); do {step}; done; say end"


class Canaries:
    """Canaries of a run, as a context. Its end cancels their jobs and removes their files.

    Args:
        cluster: the dev cluster.
        record: where the run's records go, and where jobs are seen.
        run: a name that no other run has.
    """

    def __init__(self, cluster: Cluster, record: Record, run: str) -> None:
        self._cluster, self._record, self._over = cluster, record, threading.Event()
        self._folder, self._name = f"canaries/{run}", f"{CANARY}{run}"
        self._began = datetime.now().astimezone()
        self._submitted: dict[str, tuple[Form, float, bool]] = {}

    def __enter__(self) -> Canaries:
        self._cluster.ssh(f"mkdir -p {self._folder}")
        return self

    def __exit__(self, *_: object) -> None:
        names = ",".join(self.outstanding())
        try:
            self._cluster.ssh(f"{names and f'scancel -n {names};'} rm -rf {self._folder}")
        except CallFailed as failure:
            say(f"{self._folder} stays in the user's home: {failure}")

    @contextmanager
    def submitting(self) -> Iterator[None]:
        """Submit canaries, a few at a time, while this is a context."""
        thread = threading.Thread(target=self._submit_in_turn, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _submit_in_turn(self) -> None:
        """Submit the next canary whenever fewer than the wanted number run."""
        forms = itertools.cycle(FORMS)
        for number in itertools.count(1):
            while len(self.outstanding()) >= OUTSTANDING:
                if self._over.wait(PAUSE_SECONDS):
                    return
            self._submit(f"{self._name}-{number}", next(forms))
            if self._over.wait(PAUSE_SECONDS):
                return

    def _submit(self, name: str, form: Form) -> None:
        """Submit one canary. If sbatch's answer is lost, the sampler's looks at Slurm show whether the job exists."""
        output = f"-o $HOME/{self._folder}/%x.%j --open-mode=append"
        submit = f"sbatch --parsable -n1 -J {name} {form.options} {output} --wrap {shlex.quote(script(form))}"
        began = time.time()
        try:
            sure = self._cluster.ssh(submit, seconds=SUBMIT_SECONDS).strip().isdigit()
        except CallFailed:
            sure = False
        self._submitted[name] = form, began, sure
        self._record.write("canary", at=began, name=name, tasks=form.tasks, sure=sure)

    def outstanding(self) -> list[str]:
        """Return the names of canaries that have not ended, as far as the sampler has seen; lost ones are over."""
        jobs, there = [], {job.name for job in self._record.slurm.jobs} if self._record.slurm else set()
        for name, (form, at, _) in list(self._submitted.items()):
            states = self._record.states.get(name, {})
            ended = sum(state in ENDED for state in states.values())
            lost = name not in there and time.time() - at > LOST_SECONDS
            if ended < form.tasks and not lost:
                jobs.append(name)
        return jobs

    def collect(self) -> None:
        """Write what accounting says of the canaries, and what they printed."""
        since = self._began.strftime("%Y-%m-%dT%H:%M:%S")
        account = f"sacct -nPX -S {since} -o jobid,state,jobname"
        printed = f'cd {self._folder} && for file in *; do sed "s/^/$file /" "$file"; done'
        try:
            for line in self._cluster.ssh(account, seconds=COLLECT_SECONDS).splitlines():
                number, state, name = line.split("|", 2)
                if name.startswith(self._name):
                    # "CANCELLED by 1000"
                    self._record.write("account", id=number, state=state.split()[0], name=name)
            files: dict[str, list[str]] = {}
            for line in self._cluster.ssh(printed, seconds=COLLECT_SECONDS).splitlines():
                file, _, text = line.partition(" ")
                files.setdefault(file, []).append(text)
            for file, lines in files.items():
                self._record.write("printed", name=file.rpartition(".")[0], lines=lines)
        except CallFailed as failure:
            say(f"what the canaries printed could not be read: {failure}")
