"""A walk of the witness on a cluster: puts it into the jail, runs lines, and collects what it saw."""

from __future__ import annotations

import functools
import os
import random
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.witness import judge, outcomes, runs
from tests.witness.cluster import Cluster
from tests.witness.installed import Installed
from tests.witness.leftovers import Leftovers
from tests.witness.limits import Limits
from tests.witness.planting import KEPT_STEP, START_UP, UNTIL_KEPT, folder_of, plant, plant_start_up, remove_start_up
from tests.witness.values import FOLDER, LIBRARY, PREFIX

SEED = int(os.environ.get("PULUMI_SLURM_SEED") or random.randrange(10**6))
WHOLE = os.environ.get("PULUMI_SLURM_WHOLE") == "1"
WHOLE_PAIRS = 400
PART = os.environ.get("PULUMI_SLURM_PART") or "1/1"
"""The part of the lines that runs, as ``NUMBER/OF``. Each part is a walk of its own; a seed's parts are the whole."""
KILL_SECONDS = 60
"""So long Slurm waits after a job's SIGTERM (KillWait), and some."""
SECONDS_EACH = 40
AT_ONCE = {"job": 6, "login": 3}
"""Lines that run side by side: on a login node, all of them have one user's processes."""


FACTS = """
sed -n 's/^Seccomp_filters:[[:space:]]*//p' /proc/1/status
stat -L -c '%d %n' / /run /run/secrets/* /tmp /dev/shm /var/spool/slurmd {more} 2> /dev/null
true
"""
"""Shell that prints a pod's filters of system calls, and then its own file systems: each device and its place."""
OF_WORKERS = "/proc"
"""A session of a login node has that pod's processes; a job has its own."""
PLACES = "/ /run /tmp /dev/shm /var/spool/slurmd /sys/fs/cgroup /sys/fs/cgroup/* /mnt/jail"
"""Where a line may have written a file outside of the jail."""
STARTS_UP = "sbatch --get-user-env"
"""The line for which slurmd has the user's start-up files read, before his job exists."""


def part(drawn: Sequence[runs.Run], which: str) -> list[runs.Run]:
    """Each nth line, beginning with the first, the second or another: ``NUMBER/OF``."""
    number, _, of = which.partition("/")
    return list(drawn)[int(number) - 1 :: int(of)]


@dataclass(frozen=True)
class Walk:
    """The witness in a cluster's jail.

    Args:
        cluster: where.
        seed: of the draw; names the walk's processes, too.
    """

    cluster: Cluster
    seed: int

    @property
    def folder(self) -> Path:
        """The witness's folder, from outside."""
        return folder_of(self.cluster)

    @property
    def leftovers(self) -> Leftovers:
        """The walk's processes, wherever they are."""
        return Leftovers(self.seed, [self.folder / name for name in ("program", "setid")])

    @functools.cached_property
    def limits(self) -> Limits:
        """Return the limits of the workers' control groups."""
        return Limits(self.cluster)

    def set_up(self) -> None:
        """Puts the witness into the jail; as many jobs as are wanted run at once."""
        plant(self.cluster)
        plant_start_up(self.cluster, self.seed)
        self.limits.give_away()
        self._share("force:8")

    def end(self) -> None:
        """Takes back what the cluster would keep."""
        self.leftovers.end()
        self.limits.take_back()
        self._share("no")
        remove_start_up(self.cluster)
        if self.folder.exists():
            shutil.rmtree(self.folder)

    def _share(self, how: str) -> None:
        shared = f"/opt/slurm/bin/scontrol update partitionname=main oversubscribe={how} && echo done"
        assert self.cluster.in_pod(self.cluster.controller, shared) == "done\n"

    def plan(self, values_each: int | None, pairs: int) -> runs.Plan:
        """Return what there is to draw from.

        Args:
            values_each: as for Plan.
            pairs: of srun's options.
        """
        people = (runs.Who.STEP_ROOT, *self.cluster.become)
        installed = Installed(self.cluster)
        return runs.Plan(installed.options(), installed.variables(), people, values_each, pairs)

    def draw_and_run(
        self, values_each: int | None, pairs: int, seconds: int, seconds_each: int = SECONDS_EACH
    ) -> Walked:
        """Draws lines and runs them.

        Args:
            values_each: as for Plan.
            pairs: of srun's options.
            seconds: for all lines.
            seconds_each: after which a line is ended.
        """
        print(f"PULUMI_SLURM_SEED={self.seed}")
        plan = self.plan(None, WHOLE_PAIRS) if WHOLE else self.plan(values_each, pairs)
        drawn = part(runs.draw(self.seed, plan), PART)
        self.run(drawn, seconds, seconds_each)
        return Walked(self, drawn)

    def run(self, wanted: Sequence[runs.Run], seconds: int, seconds_each: int = SECONDS_EACH) -> None:
        """Runs lines, those of a job within one allocation and those of a login over SSH, at once.

        Args:
            wanted: the lines.
            seconds: for all of them.
            seconds_each: after which a line is ended.
        """
        texts = {"job": KEPT_STEP, "login": UNTIL_KEPT}
        for label, (program, from_login) in runs.BASELINES.items():
            marked = f"WITNESS={self.seed}-{label} LD_PRELOAD={LIBRARY} env {program}"
            texts["login" if from_login else "job"] += f"{marked}\n"
        for name, from_login in (("job", False), ("login", True)):
            own = [run for run in wanted if run.from_login is from_login]
            text = texts[name] + runs.script(own, AT_ONCE[name], seconds_each, name)
            (self.folder / f"{name}.sh").write_text(text)
        (self.folder / "start").write_text(f"#!/bin/sh\nexec sh {FOLDER}/job.sh\n")
        submitted = self.cluster.at_login(f"sbatch --parsable -n1 --mem=400 -o {FOLDER}/out/walk {FOLDER}/start")
        assert submitted.stdout.strip().isdigit(), submitted
        at_login = self.cluster.at_login(f"sh {FOLDER}/login.sh; echo done", seconds)
        assert at_login.stdout.endswith("done\n"), at_login
        deadline = time.monotonic() + seconds
        while left := self._jobs():
            assert time.monotonic() < deadline, f"jobs are left: {left}"
            time.sleep(0.5)  # Between two looks at Slurm, which tells nobody.

    def _jobs(self) -> str:
        ask = "/opt/slurm/bin/squeue -h -a -o '%i %j %u %T %r %M' || echo no answer"
        return self.cluster.in_pod(self.cluster.controller, ask).strip()

    def nodes(self) -> list[judge.Node]:
        """Return what the judge must know about the pods."""
        return [self._node(pod) for pod in (*self.cluster.workers, self.cluster.login)]

    def _node(self, pod: str) -> judge.Node:
        is_login = pod == self.cluster.login
        script = FACTS.format(more="" if is_login else OF_WORKERS)
        filters, *places = self.cluster.in_pod(pod, script).splitlines()
        devices: dict[int, str] = {}
        for device, _, path in (line.partition(" ") for line in places):
            devices.setdefault(int(device), path)
        return judge.Node(*self.cluster.spaces(pod), is_login=is_login, filters=int(filters), devices=devices)

    def roots(self) -> judge.Roots:
        """The roots of jail and container, as the judge wants them."""
        facts = [path.stat() for path in (self.cluster.root, self.cluster.home / "witness/bundle/rootfs")]
        jail, container = (f"{each.st_dev}:{each.st_ino}" for each in facts)
        return judge.Roots(jail, container)

    def lines(self) -> list[judge.Line]:
        """Return what the witnesses told."""
        return judge.read((self.folder / "lines").read_text(errors="replace"))

    def said(self) -> dict[str, str]:
        """Label → what a line and its job printed."""
        found: dict[str, str] = {}
        for path in sorted((self.folder / "out").iterdir()):
            label = path.name.removesuffix("-batch")
            found[label] = path.read_text(errors="replace") + found.get(label, "")
        return found

    def verdict(self, ran: Sequence[runs.Run] = ()) -> list[str]:
        """Return a line for each thing that a process had and no process of a user may have.

        Each baseline that is missing has a line, too.

        Args:
            ran: the lines; one of them may have start-up files read.
        """
        lines = self.lines()
        seen = {(line.one("label"), line.one("as")) for line in lines}
        wanted = {(f"{self.seed}-{label}", "root" if "root" in label else "program") for label in runs.BASELINES}
        wanted |= {(f"{self.seed}-{label}", "library") for label in runs.BASELINES}
        wanted |= {(f"{self.seed}-{START_UP}", "program") for run in ran if run.option == STARTS_UP and run.works}
        missing = [f"no line of the {kind} of {label}" for label, kind in sorted(wanted - seen)]
        return [*missing, *judge.verdict(lines, self.nodes(), self.roots())]

    def failures(self, wanted: Sequence[runs.Run]) -> list[str]:
        """Lines that neither ran nor were refused in known words."""
        told = {line.one("label") for line in self.lines() if line.one("as") in {"program", "root"}}
        return outcomes.failures(wanted, told, self.said())

    def leaks(self) -> list[str]:
        """Outputs of lines that show what is the pod's."""
        key = self.cluster.key()
        return [
            f"{path.name} shows {what}"
            for path in sorted((self.folder / "out").iterdir())
            for what in judge.shown(path.read_bytes(), key)
        ]

    def written(self) -> list[str]:
        """Files of the walk that lie in a pod, outside of the jail."""
        kept = "-path '/mnt/jail/[rp]*' -o -path /run/jail"
        look = f"find {PLACES} -xdev \\( {kept} \\) -prune -o -name '*{PREFIX}*' -print 2> /dev/null"
        pods = [*self.cluster.workers, self.cluster.login, self.cluster.controller]
        return [f"{pod} has {path}" for pod in pods for path in sorted({*self.cluster.in_pod(pod, look).split()})]

    def alive(self) -> list[str]:
        """Processes of the walk that live on; those of a session on a login node may."""
        processes, *_ = self.cluster.spaces(self.cluster.login)
        return [str(each) for each in self.leftovers.found({processes})]

    def alive_after(self, seconds: float) -> list[str]:
        """Those that still live when jobs have had their time to end."""
        deadline = time.monotonic() + seconds
        while (found := self.alive()) and time.monotonic() < deadline:
            time.sleep(0.5)  # Between two looks: nothing tells that they are gone.
        return found


@dataclass(frozen=True)
class Walked:
    """A walk, and the lines that it ran."""

    walk: Walk
    runs: Sequence[runs.Run]


PROMISES: Mapping[str, Callable[[Walked], list[str]]] = {
    "no process has more rights than a job": lambda walked: walked.walk.verdict(walked.runs),
    "each line ran, or was refused in known words": lambda walked: walked.walk.failures(walked.runs),
    "no output shows what is the pod's": lambda walked: walked.walk.leaks(),
    "no file is written outside of the jail": lambda walked: walked.walk.written(),
    "no limit of a control group is another": lambda walked: walked.walk.limits.changes(),
    "no process lives longer than its job": lambda walked: walked.walk.alive_after(KILL_SECONDS),
}
"""Promise that a walk must show → violations."""
