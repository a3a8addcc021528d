"""Ways out of a job, as shell lines that end with 0 when they get out. Each runs as root in a job, on a node where
another job (the victim) runs; `outside` is what shows that the line can succeed at all: itself in the pod's own root,
or another line there where the pod, too, lacks what it needs.
"""

from __future__ import annotations

from dataclasses import dataclass

SECRET = "victims-secret-5c1d"
SOCKET = "victims-socket"
IPC_KEY = 0x5C1D
SAME = "same"
POD_FILE = "usr/lib/python3/dist-packages/slurm_node/pod/paths.py"
"""A file of the pod's own image: no root of the jail has it."""


@dataclass(frozen=True)
class Escape:
    """A probe.

    Args:
        name: What is tried.
        line: Shell that ends with 0 if it got out; run by root with a deadline.
        outside: SAME, another line that must succeed in the worker pod's root, or "" where none could.
        inside_victim: A line that must succeed in a step of the victim's own job.
    """

    name: str
    line: str
    outside: str = ""
    inside_victim: str = ""


def python(code: str) -> str:
    """A line that runs Python and ends with 0 when it finds a way."""
    return f"python3 - <<'PY'\n{code}\nPY"


def forbidden_call(number: int, *arguments: int) -> str:
    """A system call (x86-64 number) with arguments that can do no harm: any answer but "not permitted" is a way."""
    return python(
        "import ctypes, errno, sys\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        f"done = libc.syscall(*map(ctypes.c_long, {(number, *arguments)}))\n"
        "sys.exit(done < 0 and ctypes.get_errno() in (errno.EPERM, errno.EACCES, errno.ENOSYS))"
    )


def own_namespace(line: str) -> str:
    """In the pod, which may mount, without a trace in it."""
    return f"unshare -mpf sh -c 'mount -t proc proc /proc && {line}'"


REMOUNT = "for m in /sys/fs/cgroup /sys/fs/cgroup/*; do mount -o remount,bind,rw $m && exit 0; done; exit 1"
VICTIMS_ENVIRONMENT = f"grep -lsa VICTIM={SECRET} /proc/[0-9]*/environ | grep -q ."
CLIMB = f"""
import os, sys, tempfile
cage = tempfile.mkdtemp()
outside = os.open('.', os.O_RDONLY)
os.chroot(cage)
os.fchdir(outside)
for _ in range(64):
    os.chdir('..')
os.chroot('.')
sys.exit(not os.path.exists('/{POD_FILE}'))
"""
FOLDERS_AMONG_DESCRIPTORS = f"""
import os, stat, sys
for process in ('self', str(os.getppid())):
    for number in os.listdir(f'/proc/{{process}}/fd'):
        try:
            if stat.S_ISDIR(os.stat(f'/proc/{{process}}/fd/{{number}}').st_mode):
                if os.path.exists(f'/proc/{{process}}/fd/{{number}}/../../../../{POD_FILE}'):
                    sys.exit(0)
        except OSError:
            pass
sys.exit(1)
"""
# Those of jobs are each other's to see (docs/limits.md): a pod's jobs share its network.
ABSTRACT_SOCKETS = f"""
import sys
names = {{line.split()[7] for line in open('/proc/net/unix') if len(line.split()) > 7}}
sys.exit(not [name for name in names if name.startswith('@') and name != '@{SOCKET}'])
"""
ASK_THE_API_SERVER = """
import ssl, sys, urllib.error, urllib.request
address = 'https://kubernetes.default.svc/api/v1/namespaces/slurm/secrets'
try:
    answer = urllib.request.urlopen(address, timeout=5, context=ssl._create_unverified_context()).status
except urllib.error.HTTPError as error:
    answer = error.code
refused = answer in (401, 403)
"""
OTHER_NAMESPACES = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for kind in ('mnt', 'pid', 'ipc'):
    own = os.readlink(f'/proc/self/ns/{kind}')
    for process in filter(str.isdigit, os.listdir('/proc')):
        try:
            if os.readlink(f'/proc/{process}/ns/{kind}') != own:
                file = os.open(f'/proc/{process}/ns/{kind}', os.O_RDONLY)
                if libc.setns(file, 0) == 0:
                    sys.exit(0)
        except OSError:
            pass
sys.exit(1)
"""
TRACE_FIRST = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
SEIZE, DETACH = 0x4206, 17
sys.exit(libc.ptrace(SEIZE, 1, 0, 0) != 0)
"""
TRACE_A_CHILD = """
import ctypes, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
child = subprocess.Popen(['sleep', '10'])
failed = libc.ptrace(0x4206, child.pid, 0, 0)
child.kill()
sys.exit(failed != 0)
"""


def connect(host: str, port: int) -> str:
    """Return whether an address answers."""
    return python(f"import socket\nsocket.create_connection(({host!r}, {port}), 3)")


def opens_for_writing(*names: str) -> str:
    """Ends with 0 if a cgroup file of one of these names can be opened for writing; writes nothing."""
    return python(
        "import os, sys\n"
        "for folder, _, files in os.walk('/sys/fs/cgroup'):\n"
        f"    for name in set({list(names)!r}) & set(files):\n"
        "        try:\n"
        "            os.close(os.open(f'{folder}/{name}', os.O_WRONLY))\n"
        "            sys.exit(0)\n"
        "        except OSError:\n"
        "            pass\n"
        "sys.exit(1)"
    )


SYS_FILE = "/sys/kernel/rcu_expedited"
"""Stands for all that root may set there; uevent_helper, which would run a program, is not in every kernel."""
SHM_OF_THE_VICTIM = python(
    "import ctypes, sys\n"
    "libc = ctypes.CDLL(None)\n"
    f"sys.exit(libc.shmget(ctypes.c_int({IPC_KEY}), ctypes.c_size_t(0), 0) < 0)"
)

ESCAPES = [
    Escape("root of process 1", "ls /proc/1/root/run/secrets/slurm/slurm.key", SAME),
    Escape("environment of process 1", "grep -qa SLURM_ /proc/1/environ", SAME),
    Escape("memory map of process 1", "grep -q . /proc/1/maps", SAME),
    Escape("descriptors of process 1", "readlink /proc/1/fd/*", SAME),
    Escape(
        "outer mounts through job_init's descriptor",
        "nsenter --mount=/proc/1/fd/3 true",
        # A probe's job_init may be gone by now; the victim's is not.
        "for one in $(grep -lx job_init /proc/[0-9]*/comm); do nsenter --mount=${one%/comm}/fd/3 true && exit; done;"
        " exit 1",
    ),
    Escape("mount namespace of process 1", "nsenter -t 1 -m true", SAME),
    Escape("namespaces of any other process", python(OTHER_NAMESPACES), SAME),
    Escape("tracing process 1", python(TRACE_FIRST)),
    Escape(
        "folders among inherited descriptors",
        python(FOLDERS_AMONG_DESCRIPTORS),
        f"exec 9< /usr/lib/python3; {python(FOLDERS_AMONG_DESCRIPTORS)}",
    ),
    Escape("climbing out of a second root", python(CLIMB), SAME),
    Escape("parent of the root folder", f"ls /../../../../{POD_FILE}", SAME),
    Escape("mounting a tmpfs", "mount -t tmpfs none /mnt && umount /mnt", SAME),
    Escape("mounting the volume's disk", "mknod /root/disk b $(stat -c '%Hd %Ld' /home) && dd if=/root/disk count=1"),
    Escape("a mount namespace", "unshare -m true", SAME),
    Escape("lifting a mask by a user namespace", "unshare -Urm umount /proc/sys"),
    Escape("an unmasked /proc by a user namespace", "unshare -Urmpf mount -t proc proc /mnt"),
    Escape("cgroups by a user namespace", "unshare -UrmC mount -t cgroup -o memory none /mnt"),
    Escape("release_agent", opens_for_writing("release_agent"), "unshare -m mount -t cgroup -o memory none /mnt"),
    Escape(
        "core_pattern",
        ": >> /proc/sys/kernel/core_pattern",
        own_namespace(": >> /proc/sys/kernel/core_pattern"),
    ),
    # Not in every kernel, like kcore; tests/native looks whether they are masked where they are there.
    Escape("sysrq", ": >> /proc/sysrq-trigger"),
    Escape("kernel settings", ": >> /proc/sys/kernel/panic", own_namespace(": >> /proc/sys/kernel/panic")),
    Escape("the kernel's memory", "head -c 1 /proc/kcore | grep -qa ."),
    Escape("keys in /proc", "grep -q . /proc/keys", own_namespace("grep -q . /proc/keys")),
    Escape("settings of /sys", f": >> {SYS_FILE}"),
    Escape("loading a module", forbidden_call(175, 0, 0, 0)),
    Escape("a kernel key ring", forbidden_call(250, 0, -3, 0)),
    Escape("rebooting", forbidden_call(169, 0, 0, 0, 0)),
    Escape("loading another kernel", forbidden_call(246, 0, 0, 0, 0)),
    Escape("files by handle", forbidden_call(304, -1, 0, 0)),
    Escape("reading the kernel's log", forbidden_call(103, 10, 0, 0)),
    Escape("kernel programs (bpf)", forbidden_call(321, 5, 0, 0)),
    # By flags for which the kernel itself asks no capability.
    Escape("watching what is opened", forbidden_call(300, 0x200, 0)),
    Escape("quotas of the node's disks", forbidden_call(179, 0x80000100, 0, 0, 0)),
    Escape("raw packets", python("import socket\nsocket.socket(socket.AF_PACKET, socket.SOCK_RAW)")),
    Escape("renaming the node", "hostname $(hostname)", SAME),
    Escape("priority over other jobs", python("import os\nos.nice(-5)")),
    Escape("one's own memory limit", opens_for_writing("memory.limit_in_bytes", "memory.max"), SAME),
    Escape("moving to another cgroup", opens_for_writing("cgroup.procs", "tasks"), SAME),
    Escape("devices of one's cgroup", opens_for_writing("devices.allow"), SAME),
    Escape(
        "writable cgroups by a remount",
        "mount -o remount,bind,rw /sys/fs/cgroup",
        "mount -o remount,bind,rw /sys/fs/cgroup",
    ),
    Escape(
        "slurm.key and jwt.key", "find /run /etc /var -maxdepth 4 -name slurm.key -o -name jwt.key | grep -q .", SAME
    ),
    Escape("the pod's names of hosts", ": >> /etc/hosts", SAME),
    Escape("NCCL's settings of the node", ": >> /etc/nccl.conf", ": >> /run/slurm-node/nccl.conf"),
    Escape("files among the pod's devices", "touch /dev/x && rm /dev/x", SAME),
    Escape("modes of the pod's devices", "chmod 0666 /dev/null", SAME),
    Escape("the same through a mask", "chmod 0666 /proc/keys || chmod 0666 /dev/termination-log", SAME),
    Escape("Slurm's configuration on the node", ": >> /run/slurm/conf/plugstack.conf", SAME),
    Escape("the folder of Slurm's socket", "touch /run/slurm/x && rm /run/slurm/x", SAME),
    Escape("Slurm's programs", "touch /opt/slurm/lib/slurm-wlm/x && rm /opt/slurm/lib/slurm-wlm/x"),
    Escape("the node's marker", "ls /run/.jail-ready", "ls /run/jail/run/.jail-ready"),
    Escape("control sockets of steps", "find /var/spool/slurmd -type s | grep -q .", SAME),
    Escape("scripts of other jobs", f"grep -rqs {SECRET} /var/spool/slurmd", SAME),
    Escape("processes of other jobs", VICTIMS_ENVIRONMENT, SAME, VICTIMS_ENVIRONMENT),
    Escape("slurmd's process", "cat /proc/[0-9]*/comm | grep -q slurm", SAME),
    Escape("temporary files of other jobs", f"ls /tmp/{SECRET}", "", f"ls /tmp/{SECRET}"),
    Escape("shared memory files of other jobs", f"ls /dev/shm/{SECRET}", "", f"ls /dev/shm/{SECRET}"),
    Escape("shared memory segments of other jobs", SHM_OF_THE_VICTIM, "", SHM_OF_THE_VICTIM),
    Escape("terminals of other jobs", "ls /dev/pts | grep -qv ptmx", "", "ls /dev/pts | grep -qv ptmx"),
    Escape("abstract sockets of daemons", python(ABSTRACT_SOCKETS)),
    Escape("a service account", "ls /var/run/secrets/kubernetes.io /run/secrets/kubernetes.io"),
    Escape("the cluster's Secrets", python(f"{ASK_THE_API_SERVER}sys.exit(refused)")),
    # Nobody answers there but on a cloud; test_network has a listener there.
    Escape("the cloud's metadata", connect("169.254.169.254", 80)),
]
"""Named once each; the test counts them."""

PROGRAMS = "bash cat chmod dd find grep head hostname ls mknod mount nsenter python3 readlink stat touch umount unshare"
FILES = (
    f"/etc/hosts /etc/nccl.conf /proc/1/fd /proc/keys /proc/sys/kernel/core_pattern /proc/sys/kernel/panic {SYS_FILE}"
)
IN_JOB = {
    "every program that the lines run": f"for one in {PROGRAMS}; do command -v $one || exit 1; done",
    "every file that they open": f"ls -d {FILES}",
    "tracing at all": python(TRACE_A_CHILD),
    "a disk for mknod": "stat -c '%Hd %Ld' /home | grep -x '[0-9]* [0-9]*'",
    "an answer of the API server": python(f"{ASK_THE_API_SERVER}sys.exit(not refused)"),
    "sockets of another job": f"grep -q '@{SOCKET}$' /proc/net/unix",
}
"""Lines that must succeed in the probing job itself, so that a missing program never counts as a refusal."""

COVERS = {
    "mount": "mount -t tmpfs cover /srv",
    "in a user namespace": "unshare -Urm mount -t tmpfs cover /srv",
    "in the namespace of process 1": "nsenter -t 1 -m mount -t tmpfs cover /srv",
}
"""Mounts over a folder of everybody's that are left there; the second works, and is to be seen by nobody else."""
COVERED = "grep ' /srv tmpfs ' /proc/mounts"
