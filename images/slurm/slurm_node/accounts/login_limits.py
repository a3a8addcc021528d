"""Limits of one user on a login node: each user has a control group. A login joins it (native/login/user_limits.c).

The rules are a text of lines, in order:

    group FOLDER       a user's own group is FOLDER/<uid>; the session joins it
    set FILE VALUE     in that group
    rlimit NAME VALUE  of the session's processes
"""

from pathlib import Path

from slurm_node.pod import cgroups, paths
from slurm_node.pod.cgroups import Controllers
from slurm_node.pod.log import NodeError, say
from slurm_node.pod.settings import Login

FOLDER = "users"
MEBIBYTE = 2**20
PERIOD_MICROSECONDS = 100_000
"""cpu.cfs_period_us, the kernel's default."""


def rules(login: Login, controllers: Controllers) -> list[str]:
    """Returns the lines for this pod's cgroups: version 2, or version 1, with rlimits for what they lack."""
    quota = None if login.cpu_millis is None else login.cpu_millis * PERIOD_MICROSECONDS // 1000
    if controllers.v2:
        return [
            f"group {controllers.v2 / FOLDER}",
            f"set memory.max {login.memory_mib * MEBIBYTE}",
            f"set pids.max {login.processes}",
            *([f"set cpu.max {quota} {PERIOD_MICROSECONDS}"] if quota else []),
        ]
    lines = []
    if memory := controllers.by_name.get("memory"):
        lines += [f"group {memory / FOLDER}", f"set memory.limit_in_bytes {login.memory_mib * MEBIBYTE}"]
    else:
        lines += [f"rlimit as {login.memory_mib * MEBIBYTE}"]
    if pids := controllers.by_name.get("pids"):
        lines += [f"group {pids / FOLDER}", f"set pids.max {login.processes}"]
    else:
        lines += [f"rlimit nproc {login.processes}"]
    if cpu := controllers.by_name.get("cpu"):
        # Also without a limit: groups share CPU equally, however many processes each has.
        lines += [f"group {cpu / FOLDER}", *([f"set cpu.cfs_quota_us {quota}"] if quota else [])]
    return lines


def install(login: Login) -> None:
    """Prepares the groups and writes the rules. Without the rules pam_jail.so refuses every login."""
    try:
        controllers = cgroups.make_writable()
    except (NodeError, OSError) as error:
        say(f"users have limits for each process, not in all: {error}")
        controllers = Controllers((), None)
    write(login, controllers, paths.LOGIN_LIMITS)


def write(login: Login, controllers: Controllers, file: Path) -> None:
    """Prepares groups and writes the rules to a file. Without groups, the rules limit each process."""
    try:
        _make_folders(controllers)
    except OSError as error:
        say(f"users have limits for each process, not in all: {error}")
        controllers = Controllers((), None)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{line}\n" for line in rules(login, controllers)))


def _make_folders(controllers: Controllers) -> None:
    if controllers.v2:
        (controllers.v2 / FOLDER).mkdir(exist_ok=True)
        (controllers.v2 / FOLDER / "cgroup.subtree_control").write_text("+memory +pids +cpu")
    for name in ("memory", "pids", "cpu"):
        if hierarchy := controllers.by_name.get(name):
            (hierarchy / FOLDER).mkdir(exist_ok=True)
