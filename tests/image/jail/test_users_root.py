"""Processes with the pod's rights take no code and no settings from the users' root, which users may change.

The tests plant modules everywhere that a C library, PAM or a shell would look. Then they use every door while fanotify
tells which process opens them (traps: NSS, libgcc_s, gconv, PAM, locale, su, the entry of root).
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image import roots
from tests.image.jail.opens import Watch
from tests.image.networks import ADDRESS
from tests.image.pods import LOGIN, WORKER
from tests.image.small_cluster import ALICE, SmallCluster

LIBRARIES = "usr/lib/x86_64-linux-gnu"
PLANTED_LIBRARIES = (
    f"{LIBRARIES}/libnss_planted.so.2",
    f"{LIBRARIES}/libgcc_s.so.1",
    f"{LIBRARIES}/gconv/UTF-16.so",
    f"{LIBRARIES}/security/planted.so",
    "usr/lib/planted.so",
)
NSSWITCH = "".join(f"{name}: planted files\n" for name in ("passwd", "group", "shadow", "hosts", "initgroups"))
PAM = "".join(
    f"{kind} optional planted.so\n{kind} required pam_permit.so\n"
    for kind in ("auth", "account", "password", "session")
)
PLANTED_FILES = {
    "etc/nsswitch.conf": NSSWITCH,
    "etc/ld.so.preload": "/usr/lib/planted.so\n",
    f"{LIBRARIES}/gconv/gconv-modules": "module UTF-16// INTERNAL UTF-16 1\nmodule INTERNAL UTF-16// UTF-16 1\n",
    "etc/locale.alias": "C planted\n",
    "etc/host.conf": "multi on\n",
    "etc/environment": "LD_PRELOAD=/usr/lib/planted.so\n",
}
# The shell that root's entry in the jail names.
SHELL = """#!/bin/bash
(id -u; grep CapPrm /proc/self/status; stat -c %i /) > /srv/shell-of-root 2>&1
exec /bin/bash "$@"
"""
ACCOUNTS = {f"etc/{name}" for name in ("passwd", "group", "shadow", "gshadow", "subuid", "subgid")}
DATA = ACCOUNTS | {"etc/hosts", "etc/slurm/slurm.conf"}
"""Files that they read as data: accounts (nss_jail.c, account_sync.py). The pod's own files lie here too."""
FILES_OF_USERS = ("home/alice/", "root/out-")
POD_PROGRAMS = ("/opt/slurm/", "/usr/sbin/sshd", "/usr/lib/openssh/", "/usr/bin/su", "/usr/bin/python3")
SYS_ADMIN = 1 << 21


@pytest.fixture(scope="module")
def cluster(image: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallCluster]:
    # A file system of its own, so that every open in it is the users' root's.
    folder = tmp_path_factory.mktemp("users")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "users", folder], check=True)
    try:
        with SmallCluster(image, roots.make("bookworm", folder / "root"), folder) as started:
            plant(started.root, folder)
            started.start()
            started.start_login()
            started.let_root_submit()
            yield started
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def plant(root: Path, folder: Path) -> None:
    library = folder / "planted.so"
    command = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
    subprocess.run(command, input="int planted = 1;\n", text=True, check=True, timeout=60)
    for path in PLANTED_LIBRARIES:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).unlink(missing_ok=True)
        (root / path).write_bytes(library.read_bytes())
    for path, text in PLANTED_FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    for service in ("su", "su-l", "sshd", "other"):
        (root / "etc/pam.d" / service).write_text(PAM)
    shell = root / "usr/lib/shell-of-root"
    shell.write_text(SHELL)
    shell.chmod(0o755)
    passwd = root / "etc/passwd"
    entry = "root:x:0:0:root:/root:"
    passwd.write_text(passwd.read_text().replace(f"{entry}/bin/bash", f"{entry}/{shell.relative_to(root)}"))


def use_every_door(cluster: SmallCluster) -> None:
    """Steps of each kind by root and alice, and logins."""
    for user in (0, ALICE):
        assert cluster.jail("srun -n1 id -u", user=user).stdout == f"{user}\n"
        for option in ("--export=ALL", "--export=NONE", "--export=A=1", "--get-user-env"):
            assert cluster.batch("id -u", option, user=user).splitlines()[-1:] == [str(user)], (option, user)
    assert cluster.ssh("id -u").stdout == f"{ALICE}\n"
    assert cluster.ssh("bash", "-s", given="srun -n1 id -u\n").stdout == f"{ALICE}\n"


def inside(path: str) -> str:
    """A path below the root, from whichever mount it was opened."""
    for prefix in ("/run/jail/", "/mnt/jail/roots/r1/", "/mnt/jail/persistent/"):
        path = path.removeprefix(prefix)
    return path.lstrip("/")


def test_who_has_the_pods_rights_opens_nothing_of_the_users_root_but_data(cluster: SmallCluster) -> None:
    with Watch(cluster.root) as watch:
        use_every_door(cluster)
    seen = {(each.program, inside(each.path), each.privileged) for each in watch.opens}
    users = {path for _, path, privileged in seen if not privileged}
    assert {"etc/nsswitch.conf", "etc/ld.so.preload", "usr/lib/planted.so"} <= users, "the users' programs take them"
    ours = {(program, path) for program, path, privileged in seen if privileged and program.startswith(POD_PROGRAMS)}
    assert any(program.endswith("slurmstepd") for program, _ in ours)
    assert any("sshd" in program for program, _ in ours)
    taken = {(program, path) for program, path in ours if path not in DATA and not path.startswith(FILES_OF_USERS)}
    assert not taken


def test_the_jails_entry_of_root_is_heeded_inside_alone_and_without_the_pods_rights(cluster: SmallCluster) -> None:
    assert cluster.batch("id -u", "--export=NONE", user=0).splitlines()[-1] == "0"
    user, capabilities, inode = (cluster.root / "srv/shell-of-root").read_text().splitlines()
    assert (user, int(inode)) == ("0", cluster.root.stat().st_ino)
    assert not int(capabilities.split()[1], 16) & SYS_ADMIN
    assert cluster.pod("getent passwd 0").stdout.strip().endswith(":/root:/bin/bash")


def writable(mountinfo: str) -> dict[str, str]:
    """Return path → file system, and which part of it, of each mount that is not read-only."""
    lines = [line.split() for line in mountinfo.splitlines()]
    shown = {words[4]: words for words in lines}
    return {path: words[2] + words[3] for path, words in shown.items() if "rw" in words[5].split(",")}


@pytest.mark.parametrize(("pod", "enter"), [(WORKER, "srun -n1 "), (LOGIN, "")], ids=["a job", "a login"])
def test_root_of_the_jail_writes_no_file_or_folder_that_is_the_pods(
    cluster: SmallCluster, pod: str, enter: str
) -> None:
    table = "cat /proc/self/mountinfo"
    shown = cluster.ssh(table) if pod == LOGIN else cluster.jail(f"{enter}{table}")
    pods = writable(cluster.pod(table, name=pod).stdout)
    of_pod = {place for path, place in pods.items() if not path.startswith("/run/jail")}
    shared = {path for path, place in writable(shown.stdout).items() if place in of_pod}
    # Devices and terminals are for all; a container runtime masks /proc and /sys.
    assert {path for path in shared if not path.startswith("/dev/")} <= {"/proc", "/sys"}, shown.stdout
    said = cluster.jail(
        f"{enter}sh -c 'echo >> /etc/hosts; touch /dev/x; mv /dev/fd /dev/x; echo > /dev/null && echo ok'", name=pod
    )
    assert (said.stdout, said.stderr.count("Read-only file system")) == ("ok\n", 3), said


def test_a_users_profile_that_slurm_runs_before_the_job_leaves_nothing_on_the_node(cluster: SmallCluster) -> None:
    """slurmd runs it by `su` for --export=NONE, before there is a job to clean up after."""
    cluster.jail("echo 'touch /tmp/of-a-profile /dev/shm/of-a-profile ~/ran' >> ~/.profile", user=ALICE)
    listed = cluster.batch("ls ~/ran; ls -A /tmp /dev/shm", "--export=NONE")
    assert "ran" in listed
    assert "of-a-profile" not in listed
    assert "of-a-profile" not in cluster.pod("ls -A /tmp /dev/shm /run/jail/tmp /run/jail/dev/shm").stdout


def test_every_way_of_copying_over_ssh_ends_in_the_same_root(cluster: SmallCluster, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("copied")
    key = Path(cluster.client("ssh")[6])
    target = f"alice@{ADDRESS}:"
    for line in (
        ["scp", file, f"{target}by-scp"],
        ["scp", "-O", file, f"{target}by-old-scp"],
        ["scp", key, f"{target}key"],
    ):
        copied = subprocess.run(
            [*cluster.client(line[0]), *line[1:]], capture_output=True, text=True, timeout=60, check=False
        )
        assert copied.returncode == 0, copied.stderr
    batch = f"put {file} by-sftp\ncd /\nls run\n"
    sftp = subprocess.run(
        [*cluster.client("sftp"), "-b", "-", target],
        input=batch,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert sftp.returncode == 0, sftp.stderr
    assert "secrets" not in sftp.stdout
    remote = "ssh -i key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    synced = cluster.ssh(f"chmod 600 key && rsync -e '{remote}' by-scp {target}by-rsync")
    assert synced.returncode == 0, synced.stderr
    names = " ".join(f"by-{way}" for way in ("scp", "old-scp", "sftp", "rsync"))
    assert cluster.jail(f"srun -n1 cat {names}", user=ALICE).stdout == "copied" * 4


def test_user_namespaces_work_in_both_doors(cluster: SmallCluster) -> None:
    look = "unshare -Urm id -u"
    for done in (cluster.ssh(look), cluster.jail(f"srun -n1 {look}", user=ALICE)):
        assert done.stdout == "0\n", done.stderr
