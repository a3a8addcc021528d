"""Slurm's configuration on a node: only slurmctld's answer to the node's request, never files that somebody sends.

Stock slurmd and sackd accept files in a message in slurmctld's name, and restart themselves. So a token of root or
SlurmUser is enough to set another PluginDir, or to write a file elsewhere. Here neither has a folder to write to, and
sackd does not listen. Both read what the entry has fetched, over a connection to slurmctld that the node itself opened.
A message only makes slurmd restart itself, through native/programs/slurmd_start.c, which fetches first.

Races: slurmctld reads its files before it tells nodes. So a node that asks after that message gets the new files. That
holds during a rollout, a scale-out or a second change too. A change in between sends another message. A refused
configuration never reaches slurmctld. While slurmctld does not answer, slurmd starts with what was fetched last. So no
node waits for the configuration's mark to arrive by another way. Kubelet updates a ConfigMap up to 90 s later.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from slurm_node.pod import paths, settings
from slurm_node.pod.log import say
from slurm_node.slurm import configless_cache, cred_state, device_lines

ATTEMPT_SECONDS = 5.0
"""Deadline of one attempt. slurmd itself would wait for 10 s after a failure, so it is restarted instead."""
DEADLINE_SECONDS = 20.0
POLL_SECONDS = 0.02
REMIND_SECONDS = 30.0
WAITING = "slurmctld has given no configuration yet: is it up?"

# `slurmd -G` writes the files, makes its link to them, and then looks for GPUs. It gets folders and control groups of
# its own, since slurmd runs beside it.
APART = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--mount", "--propagation", "private", "sh", "-c"),
    'mount --bind "$0/run" "$1" && mount --bind "$0/spool" "$2" && mount -t tmpfs none /sys/fs/cgroup && shift 2'
    ' && exec "$@"',
)

ASK = (str(paths.SLURMD), "-G", "-N", "none")


class Fetch:
    """One question to slurmctld.

    Args:
        controller: host:port.
        key: slurm.key.
        work: a folder for this question alone, whose content is deleted.
    """

    def __init__(self, controller: str, key: Path, work: Path) -> None:
        self._work = work
        shutil.rmtree(work, ignore_errors=True)
        for folder in (work, work / "run", work / "spool"):
            folder.mkdir(mode=0o755)
        self._process = subprocess.Popen(
            [*APART, str(work), str(paths.SLURM_RUN), str(paths.SPOOL), *ASK, "--conf-server", controller],
            env={"PATH": os.environ.get("PATH", ""), "SLURM_SACK_KEY": str(key)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def files(self) -> dict[str, str] | None:
        """Returns file name → text once all files exist."""
        # slurmd makes the link after the last file, before it reads any.
        if not (self._work / "run/conf").is_symlink():
            return None
        return configless_cache.read(self._work / "spool/conf-cache")

    def is_over(self) -> bool:
        """Return whether the question has ended."""
        return self._process.poll() is not None

    def end(self) -> None:
        """Ends the question, in whatever state."""
        # Together with the child process by which slurmd asks.
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        shutil.rmtree(self._work, ignore_errors=True)


def put(files: Mapping[str, str], target: Path = paths.FETCHED) -> bool:
    """Makes these the files of a folder of root's, and replaces each atomically.

    Returns:
        whether there was a difference.

    Raises:
        OSError: a link is in the way, or the folder can't be written.
    """
    target.mkdir(mode=0o755, exist_ok=True)
    folder = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchown(folder, 0, 0)
        different = files != configless_cache.read(target)
        for name, text in files.items():
            _write(folder, name, text)
        for name in set(os.listdir(folder)) - set(files):  # noqa: PTH208 - a descriptor
            os.unlink(name, dir_fd=folder)
    finally:
        os.close(folder)
    return different


def _write(folder: int, name: str, text: str) -> None:
    aside = f".{name}.new"
    with suppress(FileNotFoundError):
        os.unlink(aside, dir_fd=folder)
    file = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=folder)
    with os.fdopen(file, "w", errors="surrogateescape") as opened:
        opened.write(text)
    os.replace(aside, name, src_dir_fd=folder, dst_dir_fd=folder)


def fetch(
    begin: Callable[[], Fetch],
    seconds: float = DEADLINE_SECONDS,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, str] | None:
    """Asks slurmctld until it answers.

    Args:
        begin: asks once.
        seconds: how long to go on.
        clock: in seconds.
        sleep: passes time.

    Returns:
        File name → text; None if slurmctld gave no answer within that time.
    """
    deadline = clock() + seconds
    while (now := clock()) < deadline:
        asked, end = begin(), min(deadline, now + ATTEMPT_SECONDS)
        try:
            while clock() < end:
                over = asked.is_over()
                if files := asked.files():
                    return files
                if over:
                    break
                sleep(POLL_SECONDS)  # Between two looks at its files.
        finally:
            asked.end()
        sleep(POLL_SECONDS)  # A question that ended at once would end so again.
    return None


def wait(tell: Callable[[str], object] = lambda _: None) -> Mapping[str, str]:
    """Fetches until slurmctld has answered, or for a limited time if there are files of an earlier answer.

    Args:
        tell: called with a sentence while slurmctld does not answer.

    Returns:
        File name → text of the files that exist now.
    """
    node, reminded = settings.read_node(), 0.0

    def begin() -> Fetch:
        return Fetch(node.controller, paths.SLURM_KEY, paths.OWN_RUN / "fetch")

    while (files := fetch(begin)) is None:
        if (before := configless_cache.read()) is not None:
            say("slurmctld does not answer: slurmd starts with the configuration that it gave last")
            return before
        tell(WAITING)
        if time.monotonic() - reminded >= REMIND_SECONDS or not reminded:
            say(WAITING)
            reminded = time.monotonic()
    files = device_lines.only_present(files, node.node_set)
    put(files)
    return files


def main() -> int:
    """Fetches the configuration before a slurmd starts, and adds to cred_state the jobs that a killed slurmd lost."""
    wait()
    # Last, since a job may end during the wait for slurmctld.
    cred_state.restore()
    return 0
