"""slurmstepd's filter: which calls it refuses in every thread and child, and what it leaves for the job's end."""

from __future__ import annotations

import errno
import os
import platform
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the control is a process with all rights")

PROMISED = {
    "execve", "execveat", "mount", "umount2", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount", "fspick",
    "mount_setattr", "pivot_root", "chroot", "setns", "unshare", "ptrace", "process_vm_readv", "process_vm_writev",
    "pidfd_getfd", "open_by_handle_at", "mknodat",
}  # fmt: skip
"""Calls with which root's slurmstepd could start a program, leave its namespaces, or look into another process."""

REFUSED = PROMISED | {
    "acct", "add_key", "bpf", "delete_module", "fanotify_init", "finit_module", "init_module", "io_uring_setup",
    "kexec_file_load", "kexec_load", "keyctl", "mknod", "perf_event_open", "quotactl", "quotactl_fd", "reboot",
    "request_key", "setdomainname", "sethostname", "swapoff", "swapon", "syslog", "userfaultfd",
}  # fmt: skip
"""These, and those that reach the kernel itself: its code, its keys, its devices."""
OPEN_TREE_ATTR = 467
"""This machine's headers may not have its number."""


def errors(make: Callable[..., Path], folder: Path, filtered: str) -> dict[str, list[int]]:
    """Errors of each call in the main thread, a second thread, and a child; and of each line after them."""
    probe = make("stepd_filter_probe", folder)
    done = subprocess.run([probe, filtered], capture_output=True, text=True, timeout=60, check=True)
    lines = [line.split(" ") for line in done.stdout.splitlines()]
    return {
        " ".join(word for word in words if not word.lstrip("-").isdigit()): [
            int(word) for word in words if word.lstrip("-").isdigit()
        ]
        for words in lines
    }


def test_no_thread_or_child_starts_a_program_or_leaves_its_namespaces(
    make: Callable[..., Path], tmp_path: Path
) -> None:
    open_to_root, refused = errors(make, tmp_path, "unfiltered"), errors(make, tmp_path, "filtered")
    shown = {name for name in PROMISED if errno.EPERM not in open_to_root[name]}
    assert {"execve", "mount", "setns", "unshare", "ptrace", "open_by_handle_at"} <= shown, "the control shows little"
    assert {name: refused[name] for name in PROMISED} == dict.fromkeys(PROMISED, [errno.EPERM] * 3)
    assert refused["clone3"] == [errno.ENOSYS] * 3 != open_to_root["clone3"]
    for kind in ("mnt", "pid", "user"):
        assert refused[f"clone {kind}"] == [errno.EPERM], f"a child in a new {kind} namespace"
    assert open_to_root["clone mnt"] == [0]


def numbers() -> dict[str, int]:
    """The number of each call, as this machine's headers have it."""
    command = ["gcc", "-E", "-dM", "-include", "sys/syscall.h", "-x", "c", "/dev/null"]
    macros = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    return {name: int(number) for name, number in re.findall(r"^#define __NR_(\w+) (\d+)$", macros, re.MULTILINE)}


def test_of_all_numbers_it_refuses_these_and_no_other(make: Callable[..., Path], tmp_path: Path) -> None:
    probe = make("filter_numbers_probe", tmp_path)
    done = subprocess.run([probe], capture_output=True, text=True, timeout=60, check=True)
    known = numbers()
    wanted = {known[name]: errno.EPERM for name in REFUSED if name in known} | {OPEN_TREE_ATTR: errno.EPERM}
    wanted |= {known[name]: errno.ENOSYS for name in ("clone3", "close_range")}
    assert {int(number): int(error) for number, error in map(str.split, done.stdout.splitlines())} == wanted


def test_what_a_jobs_end_takes_is_left(make: Callable[..., Path], tmp_path: Path) -> None:
    left = errors(make, tmp_path, "filtered")
    assert (left["fork"], left["thread"], left["clone"]) == ([0], [0], [0])
    assert left["detach"] == [errno.ESRCH], "PTRACE_DETACH reaches the kernel"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="a second architecture's calls, as x86-64 has them")
def test_no_call_comes_by_the_number_of_another_architecture(make: Callable[..., Path], tmp_path: Path) -> None:
    assert errors(make, tmp_path, "filtered")["i386"] == [errno.ENOSYS]
