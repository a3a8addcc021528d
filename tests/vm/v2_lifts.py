"""Attempts of root in a job, and of a user on a login node, to lift their limits.

A refusal proves something only where the same line works for the pod's root. So the pod's root runs each line too, and
each line does no harm where it works.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

PROGRAMS = ("mkdir", "mount", "rmdir", "sed", "unshare")
POD = "/sys/fs/cgroup/pod"
END = "end of the tries"


@dataclass(frozen=True, slots=True)
class Lift:
    """A try.

    Attributes:
        line: shell that ends with 0 if it lifts something. $g is the group of the task, $job that of its job, $slurmd
            that of the daemon; on a login node $g is the session's.
        file: must be there.
    """

    line: str
    file: str = ""


def write(file: str, text: str) -> Lift:
    """A line that writes to a file of a group."""
    return Lift(f"echo {text} > {file}", file)


def open_to_write(file: str) -> Lift:
    """A line that only opens one, where writing would do harm."""
    return Lift(f": > {file}", file)


NAMESPACES = {
    "a namespace of groups": Lift("unshare -C true"),
    "a namespace of groups for a user of its own": Lift("unshare -UrC true"),
    "a mount in a groups' namespace of its own": Lift(
        "unshare -UrmC sh -c 'mkdir -p /tmp/m && mount -t cgroup2 none /tmp/m'"
    ),
}
OF_ROOT_IN_A_JOB: Mapping[str, Lift] = {
    "more memory": write("$job/memory.max", "max"),
    "more memory for the step": write("$g/memory.max", "max"),
    "more cores": write("$job/cpuset.cpus", "0-1"),
    "the daemon's group": write("$slurmd/cgroup.procs", "$$"),
    "the pod's group": write(f"{POD}/cgroup.procs", "$$"),
    "controllers for groups below": write("$job/cgroup.subtree_control", "+memory"),
    "a group of its own": Lift("mkdir $g/own && rmdir $g/own", "$g"),
    "all jobs' processes": open_to_write("/sys/fs/cgroup/system.slice/pids.max"),
    "the node's end": open_to_write("/sys/fs/cgroup/cgroup.kill"),
    "another's end": open_to_write(f"{POD}/cgroup.kill"),
    "a freeze of the node": open_to_write(f"{POD}/cgroup.freeze"),
    "a writable mount": Lift("mount -o remount,bind,rw /sys/fs/cgroup"),
    "another mount": Lift("mkdir -p /tmp/m && mount -t cgroup2 none /tmp/m && umount /tmp/m"),
    **NAMESPACES,
}
OF_A_USER: Mapping[str, Lift] = {
    "more CPU": open_to_write("$g/cpu.max"),
    "more memory": open_to_write("$g/memory.max"),
    "more processes": open_to_write("$g/pids.max"),
    "the pod's group": open_to_write(f"{POD}/cgroup.procs"),
    "a group of its own": Lift("mkdir $g/own && rmdir $g/own", "$g"),
    "a mount in a groups' namespace of its own": NAMESPACES["a mount in a groups' namespace of its own"],
}


@dataclass(frozen=True, slots=True)
class Told:
    """The output of a script of attempts."""

    uid: str
    group: str
    missing: tuple[str, ...]
    lifted: frozenset[str]
    ended: bool


def tries(lifts: Mapping[str, Lift], until: str = "") -> str:
    """Return a script that makes all attempts in its own cgroup, and waits for a file, if one is named."""
    own = "g=/sys/fs/cgroup$(sed s/^0:://  /proc/self/cgroup)"
    user_namespaces = "unshare -Ur true || echo 'missing: user namespaces'"
    stay = f"until [ -e {until} ]; do sleep 0.2; done" if until else ""
    return "\n".join([own, user_namespaces, _tries(lifts), stay])


def by_who_may(lifts: Mapping[str, Lift], group: str) -> str:
    """A script that tries the same for the group of somebody else; its mounts go with it."""
    return f"unshare -m sh -c {shlex.quote(chr(10).join([f'g={group}', _tries(lifts)]))}"


def _tries(lifts: Mapping[str, Lift]) -> str:
    lines = [
        "job=${g%%/step_*}; slurmd=${job%/*}/slurmd; echo uid: $(id -u); echo group: $g",
        f"for one in {' '.join(PROGRAMS)}; do command -v $one >/dev/null || echo missing: $one; done",
    ]
    for name, lift in lifts.items():
        attempt = f'( {lift.line} ) >/dev/null 2>&1 && echo "lifted: {name}"'
        if lift.file:  # Where it is away, a line would make it, as a file of another kind.
            attempt = f'if test -e {lift.file}; then {attempt}; else echo "missing: {lift.file} ({name})"; fi'
        lines.append(attempt)
    return "\n".join([*lines, f"echo {END}"])


def told(printed: str) -> Told:
    """Reads what a script printed."""
    lines = [line.partition(": ") for line in printed.splitlines()]
    values: dict[str, list[str]] = {"uid": [], "group": [], "missing": [], "lifted": []}
    for key, _, value in lines:
        if key in values:
            values[key].append(value)
    uid, group = ("".join(values[key]) for key in ("uid", "group"))
    return Told(uid, group, tuple(values["missing"]), frozenset(values["lifted"]), END in printed.splitlines())
