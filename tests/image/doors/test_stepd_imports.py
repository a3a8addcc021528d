"""Calls of slurmstepd that take a path or start a process: a new Slurm with another one fails here.

Look then what it does for a user (native/stepd/stepd_open.c, native/spank/stepd_filter.c), and add it with the reason.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

PREFIX = "opt/slurm"
WORDS = """
access acct bind bpf canonicalize_file_name chdir chmod chown chroot clone clone3 connect creat dlmopen dlopen eaccess
euidaccess execl execle execlp execv execve execveat execvp execvpe faccessat fanotify_mark fchmodat fchownat fexecve
fopen fork freopen fstatat ftok ftw fts_open futimesat getxattr glob glob_pattern_p inotify_add_watch lchmod lchown
lgetxattr link linkat listxattr llistxattr lremovexattr lsetxattr lstat lutimes mkdir mkdirat mkdtemp mkfifo mkfifoat
mknod mknodat mkostemp mkostemps mkstemp mkstemps mktemp mount name_to_handle_at nftw open open_by_handle_at open_tree
openat openat2 opendir pivot_root popen posix_spawn posix_spawnp quotactl readlink readlinkat realpath remove
removexattr rename renameat renameat2 rmdir scandir scandirat setns setxattr shm_open shm_unlink stat statfs statvfs
statx swapon symlink symlinkat syscall system tempnam tmpfile tmpnam truncate umount umount2 unlink unlinkat unshare
uselib utime utimensat utimes vfork wordexp
"""
FORMS = ("{}", "{}64", "__{}_2", "__{}64_2", "__{}_chk", "__{}64_chk", "__x{}", "__x{}64", "_{}", "__{}")
"""glibc's names for one call: for large files, with checks, and for older programs."""
TAKING = {form.format(word): word for word in WORDS.split() for form in FORMS}

REVIEWED = {
    "access": "of UnkillableStepProgram, which slurm.options refuses",
    "bind": "its own socket, in slurmd's spool",
    "chdir": "stepd_guard.so has it: as the job would",
    "chmod": "of its own socket, its script, and a container's folder in its own /tmp",
    "chown": "the same",
    "clone": "with SlurmdParameters=contain_spank alone, which slurm.options refuses",
    "execv": "in a task: a container's runtime; and UnkillableStepProgram",
    "execve": "stepd_guard.so has it: nothing once the tasks run, but task epilogs in the job",
    "faccessat": "in a task, of its TMPDIR",
    "fopen": "/proc/PID of a task, whose number it has itself",
    "fork": "spank_jail.so watches: tasks are born in the job, and what is no task gets the filter",
    "mkdir": "stepd_guard.so has it: for a user as the job would",
    "mkstemp": "X11's, which slurm.options refuses",
    "open": "stepd_guard.so has it: as the job would",
    "openat": "a container's folder, without following links",
    "rmdir": "of its folder in slurmd's spool, and a container's",
    "stat": "of slurmd's spool; and in a task, of its program",
    "unlink": "its own socket and script",
    "unlinkat": "files of its own in a container's folder",
}
"""Call → for what slurmstepd 26.05 has it."""
BY_STEALTH = {"clone3", "popen", "posix_spawn", "posix_spawnp", "system", "vfork"}
"""They start a process without a word to the handlers of fork(2) that spank_jail.so has."""
MAY_CLONE = {"libslurmfull.so", "libslurm_pmi.so", "spank_jail.so"}
"""Slurm's own runs `su` in slurmd; ours makes a job's namespaces."""


def symbols(binary: Path, kind: str) -> set[str]:
    """Names in a binary's dynamic table: those that it has (``defined``), or takes from others (``undefined``)."""
    command = ["nm", "--dynamic", f"--{kind}-only", "--format=just-symbols", str(binary)]
    listed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    return {line.partition("@")[0] for line in listed.splitlines()}


def calls(binary: Path) -> set[str]:
    """The calls that a binary takes from others."""
    return {TAKING[name] for name in symbols(binary, "undefined") & TAKING.keys()}


def test_every_call_of_slurmstepd_with_a_path_is_reviewed(image: Path) -> None:
    assert calls(image / PREFIX / "sbin/slurmstepd") == REVIEWED.keys()


@pytest.mark.parametrize("name", ["open", "open64", "__open_2", "__open64_2", "mkdir", "chdir", "execve"])
def test_the_guard_has_what_it_must_whatever_form_slurmstepd_calls(image: Path, name: str) -> None:
    if name in symbols(image / PREFIX / "sbin/slurmstepd", "undefined"):
        assert name in symbols(image / PREFIX / "lib/stepd_guard.so", "defined")


def test_nothing_that_slurmstepd_loads_starts_a_process_unseen(image: Path) -> None:
    plugins = sorted((image / PREFIX / "lib/slurm-wlm").glob("*.so"))
    command = ["nm", "--dynamic", "--undefined-only", "--print-file-name", *map(str, plugins)]
    listed = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    rows = [line.partition(":") for line in listed.splitlines()]
    taken = {(Path(file).name, TAKING.get(names.split()[-1].partition("@")[0])) for file, _, names in rows}
    assert len({file for file, _ in taken}) > 50
    assert not [each for each in taken if each[1] in BY_STEALTH]
    assert {file for file, call in taken if call == "clone"} == MAY_CLONE


def test_no_user_names_a_plugin_that_slurmstepd_then_loads(image: Path) -> None:
    """Slurm's `mpi/cray_shasta` writes outside of its memory, at an index that a user's launch has (docs/adr/0022)."""
    assert {file.name for file in (image / PREFIX).rglob("mpi_*")} == {"mpi_pmi2.so", "mpi_openmpi.so"}
    assert [file.name for file in (image / PREFIX / "lib/slurm-wlm").glob("mpi_*")] == ["mpi_openmpi.so"]
