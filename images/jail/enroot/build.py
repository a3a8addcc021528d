"""Builds and installs enroot from the folder `source`, in the build of the jail image, for jobs in unprivileged pods.

Container runtimes' default seccomp profile refuses pivot_root to a pod, and so to its jobs. The jail refuses cgroup
namespaces (docs/jail.md). So enroot's container enters its root as the jail's own library does: the root is moved over
"/". Its helpers are linked with the jail's libc, not with a musl of their own.
"""

import subprocess
import sys
from pathlib import Path

SWITCHROOT = "bin/enroot-switchroot.c"
CHANGES = (
    ('(int)syscall(SYS_pivot_root, ".", ".")', 'mount(".", "/", NULL, MS_MOVE, NULL)'),
    # The old root lies below, where no path leads; it is the namespace's first and can't be detached.
    ('umount2(".", MNT_DETACH)', "0"),
    ("unshare(CLONE_NEWCGROUP)", "0"),
)
LEFT_OUT = ("hooks.d/98-nvidia.sh",)
"""Left out: it needs nvidia-container-cli, which is of no use in a pod. The node's driver is in /run/node/driver."""


def main(here: Path) -> None:
    """Installs to /usr and /etc/enroot.

    Raises:
        SystemExit: the source is not what the changes were made for.
    """
    source = here / "source"
    file = source / SWITCHROOT
    code = file.read_text()
    for old, new in CHANGES:
        if code.count(old) != 1:
            sys.exit(f"{SWITCHROOT}: expected {old} once, found {code.count(old)}: is it the version of README.md?")
        code = code.replace(old, new)
    file.write_text(code)
    # FORCE_GLIBC, without `deps`: musl, kernel headers and makeself, which only `enroot bundle` needs.
    make("-C", str(source / "deps"), "libbsd")
    make("-C", str(source), "-o", "deps", "DEPS=", "prefix=/usr", "sysconfdir=/etc", "install")
    for name in LEFT_OUT:
        Path("/etc/enroot", name).unlink()
    Path("/etc/enroot/enroot.conf").write_bytes((here / "enroot.conf").read_bytes())


def make(*arguments: str) -> None:
    """Runs make, for the jail's libc."""
    subprocess.run(["make", "FORCE_GLIBC=1", *arguments], check=True, timeout=600)


if __name__ == "__main__":
    main(Path(__file__).parent)
