"""The witness on a small cluster: puts it into the jail, runs the lines of a walk, and collects what it saw."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.image.small_cluster import ALICE, CONTROLLER, LOGIN, WORKER, SmallCluster
from tests.witness import judge, runs
from tests.witness.options import COMMANDS, OPTIONS, commands, differences, listed

SOURCE = Path(__file__).with_name("witness.c")
SECONDS_EACH = 15
AT_ONCE = 6
OF_THE_POD = {
    "the map of slurmstepd": re.compile(rb"^[0-9a-f]+-[0-9a-f]+ .*slurmstepd$", re.MULTILINE),
    "the worker's process 1": re.compile(rb"slurm_node\0worker"),
    "the pod's environment": re.compile(rb"SLURM_NODE=\{"),
}
"""What else no job may read."""
MARKED = b"\0WITNESS="


def build(folder: Path) -> None:
    """The witness as a program, as a set-id root program and as a library; everything there is everybody's to read."""
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    for name, options in (("program", ()), ("setid", ()), ("library.so", ("-DLIBRARY", "-shared", "-fPIC"))):
        command = ["gcc", "-Wall", "-Wextra", "-Werror", "-O1", *options, "-o", str(folder / name), str(SOURCE)]
        built = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert built.returncode == 0, built.stderr
    (folder / "setid").chmod(0o4755)
    for name in ("out", "conf"):
        (folder / name).mkdir()
        (folder / name).chmod(0o777)
    (folder / "link").symlink_to("/proc/1/root")
    (folder / "lines").touch()
    (folder / "lines").chmod(0o666)


@dataclass(frozen=True)
class Stage:
    """A cluster with a worker and a login node, and the witness in its jail."""

    cluster: SmallCluster

    @property
    def folder(self) -> Path:
        """The witness's folder, from outside."""
        return self.cluster.root / runs.FOLDER.lstrip("/")

    def set(self) -> None:
        """Puts the witness into the jail; as many jobs as are wanted run at once."""
        build(self.folder)
        copied = self.cluster.jail(
            f"cp /run/slurm/conf/*.conf {runs.FOLDER}/conf; cd {runs.FOLDER}/conf; rm plugstack.conf"
        )
        assert copied.returncode == 0, copied
        shared = "/opt/slurm/bin/scontrol update partitionname=main oversubscribe=force:8"
        assert self.cluster.pod(shared).returncode == 0

    def unclassified(self) -> list[str]:
        """Options and commands of the installed programs that the tables lack, and the other way round."""
        found: list[str] = []
        for programs, table in OPTIONS.items():
            said = "".join(
                self._said(f"{program} {'--help' if program == 'scrontab' else '--=x'}") for program in sorted(programs)
            )
            found += differences(table, listed(said), " or ".join(sorted(programs)))
        for program, table in COMMANDS.items():
            found += differences(table, commands(self._said(f"{program} --help")), program)
        return found

    def _said(self, command: str) -> str:
        done = self.cluster.jail(command, user=ALICE, seconds=60)
        return done.stdout + done.stderr

    def nodes(self) -> list[judge.Node]:
        """The pods' namespaces."""
        found = []
        for pod in (WORKER, LOGIN):
            spaces = Path(f"/proc/{self.cluster.first_process(pod)}/ns")
            pid, ipc = (str((spaces / kind).readlink()) for kind in ("pid", "ipc"))
            found.append(judge.Node(pid, ipc, is_login=pod == LOGIN))
        return found

    def root(self) -> str:
        """The jail's root, as the judge wants it."""
        facts = self.cluster.root.stat()
        return f"{facts.st_dev}:{facts.st_ino}"

    def walk(self, wanted: Sequence[runs.Run], seconds: int, seconds_each: int = SECONDS_EACH) -> None:
        """Runs lines, those of a job within one allocation and those of a login over SSH, at once.

        Args:
            wanted: the lines.
            seconds: for all of them.
            seconds_each: after which a line is ended.
        """
        baselines = {True: "", False: ""}
        for label, (program, from_login) in runs.BASELINES.items():
            marked = f"WITNESS={label} LD_PRELOAD={runs.LIBRARY} {program}"
            baselines[from_login] += f"{marked}\n"
            if from_login:
                baselines[True] += f"WITNESS={label}-step LD_PRELOAD={runs.LIBRARY} srun -n1 --mem=20 {program}\n"
        for name, from_login in (("job", False), ("login", True)):
            own = [run for run in wanted if run.from_login is from_login]
            text = baselines[from_login] + runs.script(own, AT_ONCE, seconds_each, name)
            (self.folder / f"{name}.sh").write_text(text)
        submit = f"sbatch --parsable -n1 --mem=400 -o {runs.FOLDER}/out/walk {runs.FOLDER}/start"
        (self.folder / "start").write_text(f"#!/bin/sh\nexec sh {runs.FOLDER}/job.sh\n")
        submitted = self.cluster.jail(submit, user=ALICE)
        assert submitted.returncode == 0, submitted
        at_login = self.cluster.ssh("sh", f"{runs.FOLDER}/login.sh", seconds=seconds)
        assert at_login.returncode == 0, at_login
        try:
            self.cluster.wait("the walk's end", self.is_idle, seconds)
        except AssertionError as error:
            shown = self.cluster.jail("squeue -a -o '%i %j %T %r %M'; scontrol -o show job; scontrol show steps").stdout
            raise AssertionError(f"jobs are left: {shown}") from error

    def is_idle(self) -> bool:
        """Whether no job is left."""
        asked = self.cluster.jail("squeue -h -o %T")
        return asked.returncode == 0 and not asked.stdout.strip()

    def lines(self) -> list[judge.Line]:
        """What the witnesses told."""
        return judge.read((self.folder / "lines").read_text(errors="replace"))

    def leaks(self) -> list[str]:
        """Outputs of lines that show what is the pod's."""
        secrets = {"slurm.key": re.compile(re.escape(self.cluster.key)), **OF_THE_POD}
        outputs = {path.name: path.read_bytes() for path in sorted((self.folder / "out").iterdir())}
        return [
            f"{label} shows {name}"
            for label, text in outputs.items()
            for name, pattern in secrets.items()
            if pattern.search(text)
        ]

    def written(self) -> list[str]:
        """Files of the walk that lie in a pod, outside of the jail.

        slurmd's broadcast, asked for by a client of the user's own, reaches two small places where all users may
        write and nothing is run from: the pod's /tmp and /dev/shm (docs/limits.md).
        """
        places = "/ /run /var/spool/slurmd /sys/fs/cgroup /mnt/jail"
        kept = "-path '/mnt/jail/[rp]*' -o -path /run/jail"
        look = f"find {places} -xdev \\( {kept} \\) -prune -o -name '*{runs.PREFIX}*' -print"
        return [
            f"{pod} has {path}"
            for pod in (WORKER, LOGIN, CONTROLLER)
            for path in sorted(set(self.cluster.pod(look, name=pod).stdout.split()))
        ]

    def alive(self) -> list[str]:
        """Processes of the walk that are not a login session's, by what this machine sees."""
        logins = {node.pid for node in self.nodes() if node.is_login}
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                variables = b"\0" + (process / "environ").read_bytes()
                space = str((process / "ns/pid").readlink())
                if MARKED in variables and f"{runs.FOLDER}/".encode() in variables and space not in logins:
                    label = variables.partition(MARKED)[2].partition(b"\0")[0].decode()
                    found.append(f"{label}: {(process / 'comm').read_text().strip()} lives in {space}")
            except OSError:
                continue
        return found

    def alive_after(self, seconds: float) -> list[str]:
        """Those that still live when jobs have had their time to end."""
        deadline = time.monotonic() + seconds
        while (found := self.alive()) and time.monotonic() < deadline:
            time.sleep(0.5)  # Between two looks: nothing tells that they are gone.
        return found
