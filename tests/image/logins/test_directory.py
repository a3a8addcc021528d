"""A person whom an LDAP directory names logs in and runs a job: a real slapd, sshd and slurmd, and TLS between them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.apiserver.pki import Authority, Subject
from tests.image import roots
from tests.image.networks import ADDRESS
from tests.image.pods import DIRECTORY, LOGIN, WORKER
from tests.image.small_cluster import NewCluster, SmallCluster

BASE, ADMIN, READER, PASSWORD = "dc=example", "cn=admin,dc=example", "cn=reader,dc=example", "of the reader"
FOLLOWED = {
    "uri": f"ldaps://{ADDRESS}",
    "base": BASE,
    "bind": READER,
    "userFilter": "(objectClass=posixAccount)",
    "groupFilter": "(objectClass=posixGroup)",
    "ownAuthority": True,
    "seconds": 1,
}
# sshPublicKey is from the schema that OpenSSH's users know as openssh-lpk.
CONFIGURATION = f"""
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
attributetype ( 1.3.6.1.4.1.24552.500.1.1.1.13 NAME 'sshPublicKey'
  EQUALITY octetStringMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 )
objectclass ( 1.3.6.1.4.1.24552.500.1.1.2.0 NAME 'ldapPublicKey' SUP top AUXILIARY MAY ( sshPublicKey $ uid ) )
TLSCertificateFile /ldap.crt
TLSCertificateKeyFile /ldap.key
modulepath /usr/lib/ldap
moduleload back_mdb
database mdb
suffix {BASE}
rootdn {ADMIN}
rootpw admin
directory /data
access to attrs=userPassword by * auth
access to * by dn.exact={READER} read by * none
"""
BEGINNING = f"""
dn: {BASE}
objectClass: organization
objectClass: dcObject
o: example
dc: example

dn: {READER}
objectClass: organizationalRole
objectClass: simpleSecurityObject
cn: reader
userPassword: {PASSWORD}

dn: cn=lab,{BASE}
objectClass: posixGroup
cn: lab
gidNumber: 70100
memberUid: bob

dn: cn=sudo,{BASE}
objectClass: posixGroup
cn: sudo
gidNumber: 70200
memberUid: bob
"""
READY = "/usr/libexec/slurm-node/ready directory"
USER = """
dn: uid={name},dc=example
objectClass: account
objectClass: posixAccount
objectClass: ldapPublicKey
uid: {name}
cn: {name}
uidNumber: {uid}
gidNumber: {gid}
homeDirectory: /home/{name}
loginShell: /bin/bash
"""


class Directory:
    """slapd in a root of its own, in the cluster's network."""

    def __init__(self, cluster: SmallCluster, root: Path) -> None:
        self._cluster, self._root = cluster, root
        (root / "data").mkdir()
        (root / "slapd.conf").write_text(CONFIGURATION)
        self._process: subprocess.Popen[bytes] | None = None

    def _inside(self, *command: str) -> list[str]:
        return self._cluster.in_network("chroot", str(self._root), *command)

    def start(self) -> None:
        listening = f"ldaps://{ADDRESS} ldap://{ADDRESS} ldapi://%2Fsocket"
        log = (self._root / "log").open("wb")
        self._process = subprocess.Popen(
            self._inside("/usr/sbin/slapd", "-d", "0", "-f", "/slapd.conf", "-h", listening), stdout=log, stderr=log
        )
        asked = self._inside("ldapwhoami", "-x", "-H", "ldapi://%2Fsocket", "-D", ADMIN, "-w", "admin")
        self._cluster.wait(
            "slapd answers", lambda: subprocess.run(asked, check=False, capture_output=True).returncode == 0, 60
        )

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
            self._process = None

    def change(self, program: str, *words: str, ldif: str = "") -> None:
        command = self._inside(program, "-x", "-H", "ldapi://%2Fsocket", "-D", ADMIN, "-w", "admin", *words)
        done = subprocess.run(command, input=ldif, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def cluster(new_cluster: NewCluster) -> Iterator[SmallCluster]:
    with new_cluster() as started:
        started.start_login(directory=True)
        yield started


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what the directory's pod has from its Secrets; the password's file ends in a newline, as they do."""
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "password").write_text(f"{PASSWORD}\n")
    return folder


@pytest.fixture(scope="module")
def directory(cluster: SmallCluster, secrets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Directory]:
    folder = tmp_path_factory.mktemp("slapd")
    root = roots.make("directory", folder / "root")
    authority = Authority(folder / "authority")
    pair = authority.issue("ldap", Subject("ldap", addresses=(ADDRESS,)))
    (root / "ldap.crt").write_bytes(pair.certificate.read_bytes())
    (root / "ldap.key").write_bytes(pair.key.read_bytes())
    (secrets / "ca.crt").write_bytes(authority.certificate.read_bytes())
    started = Directory(cluster, root)
    try:
        started.start()
        key = (Path(cluster.client("ssh")[6]).with_suffix(".pub")).read_text().strip()
        people = [USER.format(name="bob", uid=70001, gid=70100) + f"sshPublicKey: {key}\n"]
        people += [USER.format(name="toor", uid=0, gid=0), USER.format(name="alice", uid=70002, gid=70100)]
        started.change("ldapadd", ldif="\n".join((BEGINNING, *people)))
        cluster.start_directory(FOLLOWED, secrets)
        cluster.wait("bob is known", lambda: cluster.pod("id bob").returncode == 0, 60)
        yield started
    finally:
        started.stop()


def test_a_directorys_user_logs_in_and_runs_jobs(cluster: SmallCluster, directory: Directory) -> None:
    cluster.wait("bob's key opens SSH", lambda: cluster.ssh("true", user="bob").returncode == 0, 60)
    there = cluster.ssh("id -u; id -nG; pwd; stat -c %U:%G .; srun -n1 id -u; srun -n1 id -nG", user="bob")
    assert there.stdout.splitlines() == ["70001", "lab", "/home/bob", "bob:lab", "70001", "lab"], there.stderr
    batch = cluster.ssh("sbatch --wait -Q -o out --wrap 'id -un' && cat out && stat -c %U out", user="bob")
    assert batch.stdout.split() == ["bob", "bob"], batch.stderr


def test_nobody_of_the_systems_own_comes_from_a_directory(cluster: SmallCluster, directory: Directory) -> None:
    for pod in (WORKER, LOGIN):
        assert cluster.pod("getent passwd toor", name=pod).returncode != 0
    assert cluster.jail("id -u alice; id -nG bob").stdout.split() == ["1000", "lab"]
    told = cluster.log(DIRECTORY)
    for sentence in ("user alice: an account of the jail has the name", "group sudo: an account of", "'0' is a system"):
        assert sentence in told
    assert PASSWORD not in told


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("not-ours", {"ownAuthority": False}, "certificate"),
        ("stranger", {"bind": ADMIN}, "Invalid credentials"),
        ("nobody", {"userFilter": "(uid=nobody-at-all)"}, "names no user"),
        ("in-clear", {"uri": f"ldap://{ADDRESS}", "ownAuthority": False}, "certificate"),
    ],
)
def test_what_cannot_be_trusted_or_asked_changes_nothing(
    cluster: SmallCluster, directory: Directory, secrets: Path, name: str, change: dict[str, object], says: str
) -> None:
    cluster.start_directory({**FOLLOWED, **change}, secrets, name)
    cluster.wait("the reason is told", lambda: "is not followed: " in cluster.log(name), 60)
    assert says in cluster.log(name)
    assert cluster.pod(READY, name=name).returncode == 1
    cluster.end(name)
    assert cluster.ssh("true", user="bob").returncode == 0


def test_start_tls_serves_as_well(cluster: SmallCluster, directory: Directory, secrets: Path) -> None:
    cluster.start_directory({**FOLLOWED, "uri": f"ldap://{ADDRESS}"}, secrets, "start-tls")
    cluster.wait("it is followed", lambda: "the directory is followed" in cluster.log("start-tls"), 60)
    cluster.end("start-tls")


def test_who_leaves_the_directory_leaves_the_cluster_and_comes_back_to_his_files(
    cluster: SmallCluster, directory: Directory
) -> None:
    assert cluster.ssh("echo kept > note; ssh-keygen -q -N '' -f .ssh-key; true", user="bob").returncode == 0
    key = (Path(cluster.client("ssh")[6]).with_suffix(".pub")).read_text().strip()
    directory.change("ldapdelete", f"uid=bob,{BASE}")
    directory.change("ldapadd", ldif=USER.format(name="carla", uid=70003, gid=70100))
    cluster.wait("bob is gone", lambda: cluster.ssh("true", user="bob").returncode == 255, 60)
    assert cluster.pod("id bob").returncode != 0
    directory.change("ldapadd", ldif=USER.format(name="bob", uid=70001, gid=70100) + f"sshPublicKey: {key}\n")
    cluster.wait("bob is back", lambda: cluster.ssh("cat note", user="bob").stdout == "kept\n", 60)


def test_logins_and_jobs_go_on_while_the_directory_is_away(cluster: SmallCluster, directory: Directory) -> None:
    directory.stop()
    try:
        cluster.wait("the loss is told", lambda: "Can't contact LDAP server" in cluster.log(DIRECTORY), 90)
        assert cluster.pod(READY, name=DIRECTORY).returncode == 1
        assert cluster.ssh("srun -n1 id -un", user="bob").stdout == "bob\n"
    finally:
        directory.start()
    cluster.wait("it is followed again", lambda: cluster.pod(READY, name=DIRECTORY).returncode == 0, 90)
