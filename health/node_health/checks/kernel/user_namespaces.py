"""Checks that an ordinary user can make a user namespace, as rootless containers need; sysctls explain a failure.

Only containers and `unshare --user` need it, so a failure is a warning. The check runs in the pod's own root. After a
mere chroot the kernel refuses user namespaces (user_namespaces(7)), but a job enters its root in another way.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from contract import reasons
from node_health import node
from node_health.check import Check, Machine
from node_health.verdict import Finding, Verdict

PROGRAM = ("/usr/bin/unshare", "--user", "--map-root-user", "/bin/true")
NOBODY = 65534
"""An id without rights of its own. The kernel counts user namespaces for each id."""
SECONDS = 5.0
KEPT_SECONDS = 600.0
"""A success is kept for so long: a try starts two programs, and only the machine's administrator changes the result."""
WORKED = node.FOLDER / "user_namespaces"
"""File that is touched after a success."""
CLOSED: Mapping[str, tuple[int, int]] = {
    "user.max_user_namespaces": (0, 28633),
    "kernel.unprivileged_userns_clone": (0, 1),
    "kernel.apparmor_restrict_unprivileged_userns": (1, 0),
}
"""Sysctl → its value that refuses user namespaces, and one that allows them. The first is every kernel's
(Documentation/admin-guide/sysctl/user.rst), the second Debian's, the third that of Ubuntu since 23.10."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Result of the attempt: why it was refused, or None, this machine's sysctls, and how many seconds ago it was."""

    refused: str | None
    sysctls: Mapping[str, int] = field(default_factory=dict)
    age: float = 0.0


def attempt(
    program: Sequence[str] = PROGRAM,
    sysctls: Path = Path("/proc/sys"),
    user: int | None = NOBODY,
    seconds: float = SECONDS,
) -> Attempt:
    """Tries to make a user namespace as an ordinary user.

    Args:
        program: command that makes a user namespace and ends with 0.
        sysctls: folder in which the kernel shows them.
        user: id that tries; None: the caller's.
        seconds: how long it may take.
    """
    import subprocess

    groups: list[int] | None = None if user is None else []
    try:
        tried = subprocess.run(
            program, user=user, group=user, extra_groups=groups, cwd="/", env={}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="replace", timeout=seconds, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Attempt(f"no answer within {seconds:g} s")
    except OSError as error:
        return Attempt(f"{program[0]}: {error.strerror}")
    if tried.returncode == 0:
        return Attempt(None)
    files = {name: sysctls / name.replace(".", "/") for name in CLOSED}
    return Attempt(
        " ".join(tried.stderr.split()) or f"{program[0]} ended with {tried.returncode}",
        {name: int(file.read_text()) for name, file in files.items() if file.exists()},
    )


def look(machine: Machine) -> Attempt:
    """Tries it on a machine, unless it worked lately; in a fake tree as the caller, who may not be root."""
    worked = machine.path(WORKED)
    age = time.time() - worked.stat().st_mtime if worked.exists() else KEPT_SECONDS
    if 0 <= age < KEPT_SECONDS:
        return Attempt(None, age=age)
    program = (str(machine.path(PROGRAM[0])), *PROGRAM[1:])
    tried = attempt(program, machine.path("/proc/sys"), NOBODY if machine.root == Path("/") else None)
    if tried.refused is None:
        node.put(worked, "")
    return tried


def judge(attempt: Attempt, machine: Machine | None = None) -> Finding:
    """WARNING when it was refused, with the sysctl at fault and what to do on the machine."""
    if attempt.refused is None:
        ago = f" (tried {attempt.age:.0f} s ago)" if attempt.age else ""
        return Finding(Verdict.PASS, f"an ordinary user can make a user namespace{ago}")
    fixes = [
        f"this machine has {name}={closed}: run `sysctl -w {name}={opened}` there and put it into /etc/sysctl.d"
        for name, (closed, opened) in CLOSED.items()
        if attempt.sysctls.get(name) == closed
    ]
    known = "; ".join(fixes) or f"no known sysctl forbids it: {', '.join(CLOSED)}"
    return Finding(
        Verdict.WARNING,
        f"users can make no user namespaces, so that containers won't start ({attempt.refused}); {known}",
    )


CHECK = Check(
    reasons.Check.USER_NAMESPACES,
    look,
    judge,
    fails="",
    warns="an ordinary user can make none, as containers need: the evidence names the Kubernetes node's sysctl and "
    "its value",
    remedy="set the sysctl that the evidence names",
)
