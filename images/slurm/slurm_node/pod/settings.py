"""The pod's environment variables, as typed values."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contract import pod_variables, policies, reasons
from contract.pod_variables import AccountingKey, JailKey, LdapKey, LoginKey, NodeKey, RestKey, SubmountKey
from contract.slurm_conf import node_weight
from slurm_node.pod.log import NodeError


@dataclass(frozen=True, slots=True)
class Node:
    """SLURM_NODE: what this pod is to Slurm.

    Attributes:
        gres: its generic resources as slurmd registers them, such as gpu:h100:8,shard:64.
        gres_with_files: names of those besides GPUs that have device files.
        divided_gpus: whole GPUs whose MIG devices are in gres; None: it has none.
        options: further keys of its line in slurm.conf.
        nccl: NCCL's variables for jobs of this node.
        pins_memory: whether jobs may lock as much memory as they have, for RDMA.
        processes: most processes of all jobs of this node together; None: no limit.
        shares_cpus: whether Kubernetes keeps fewer CPUs for the pod than Slurm schedules.
        least_free_percent: space that health checks want free on a file system.
        rdma: number of RDMA resources of the pod.
        rdma_adapters: adapters that must have an active port; 0: as many as resources.
        other_gpus: whether its GPUs are not NVIDIA's.
        unknown_drains: whether a health check that could not look drains the node.
        hangs_after: seconds after which a quiet job is told of; 0: never.
        grace_seconds: how long sessions of a login node, or jobs of a worker, may stay after its deletion began.
    """

    controller: str
    node_set: str = ""
    cpus: int = 0
    memory_mib: int = 0
    processes: int | None = None
    gres: str | None = None
    gres_with_files: tuple[str, ...] = ()
    divided_gpus: int | None = None
    weight: int = 1
    weight_bucket: int = 1
    options: tuple[tuple[str, int], ...] = ()
    nccl: tuple[tuple[str, str], ...] = ()
    pins_memory: bool = False
    shares_cpus: bool = False
    least_free_percent: int = policies.LEAST_FREE_PERCENT
    rdma: int = 0
    rdma_adapters: int = 0
    other_gpus: bool = False
    unknown_drains: bool = False
    hangs_after: int = 0
    grace_seconds: int = 0

    def slurmd_conf(self, hostname: str) -> str:
        """Returns slurmd's --conf: this dynamic node's own line of slurm.conf.

        A new node takes no job before the operator has seen that it works.
        """
        parts = [
            f"Feature={self.node_set}",
            f"CPUs={self.cpus}",
            f"RealMemory={self.memory_mib}",
            f"Weight={node_weight(self.weight, self.weight_bucket, ordinal(hostname))}",
            *([f"Gres={self.gres}"] if self.gres else []),
            *(f"{key}={value}" for key, value in self.options),
            "State=DRAIN",
            f"Reason={reasons.NEW}",
        ]
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Submount:
    """One of SLURM_JAIL's submounts: the content of a path of the jail on this node.

    Attributes:
        path: as the jail's processes see it.
        source: mount point of its volume in the pod; empty for a tmpfs.
        memory_mib: size of a tmpfs.
        everybodys: whether every user may write.
        read_only: whether nobody may.
    """

    path: str
    source: str = ""
    memory_mib: int = 0
    everybodys: bool = False
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Jail:
    """SLURM_JAIL: the revision of the root, its persistent paths and submounts."""

    revision: str
    persistent: tuple[str, ...] = ()
    submounts: tuple[Submount, ...] = ()
    tmp_mib: int = policies.TMP_MIB
    shm_mib: int = policies.TMP_MIB
    keep_roots: int = policies.KEEP_ROOTS


@dataclass(frozen=True, slots=True)
class Login:
    """SLURM_LOGIN: limits of one user on a login node, and how he may authenticate.

    Attributes:
        cpu_millis: thousandths of a CPU; None: no limit.
        processes: threads count, too.
        passwords: whether a password opens SSH, as a key does.
        ldap: whether keys of an LDAP directory open SSH, too.
        allow_users: those who may log in; empty: all.
        allow_groups: Unix groups whose users may log in; empty: all.
    """

    memory_mib: int
    processes: int
    cpu_millis: int | None = None
    passwords: bool = False
    ldap: bool = False
    allow_users: tuple[str, ...] = ()
    allow_groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ldap:
    """SLURM_DIRECTORY: the LDAP directory whose users are the cluster's.

    Attributes:
        uri: ldaps://, or ldap:// for StartTLS.
        bind: distinguished name to bind as; None: an anonymous bind.
        own_authority: whether the pod has a file with the servers' CA; else the image's own CAs are used.
        seconds: between two queries.
    """

    uri: str
    base: str
    user_filter: str
    group_filter: str
    bind: str | None = None
    own_authority: bool = False
    seconds: int = policies.LDAP_SECONDS


@dataclass(frozen=True, slots=True)
class Accounting:
    """SLURM_ACCOUNTING: where slurmdbd answers."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Rest:
    """SLURM_REST: whether slurmrestd listens on a socket, for the pod's proxy."""

    socket: bool = False


@dataclass(frozen=True, slots=True)
class User:
    """One of SLURM_USERS: an ordinary user that a root starts with."""

    name: str
    ssh_public_keys: tuple[str, ...] = ()
    sudo: bool = False


def gres_counts(gres: str) -> dict[str, int]:
    """Returns how many of each name a node's Gres has: {"gpu": 8, "shard": 64} of gpu:h100:8,shard:64."""
    counts: dict[str, int] = {}
    for resource in filter(None, gres.split(",")):
        name, count = resource.partition(":")[0], resource.rpartition(":")[2]
        counts[name] = counts.get(name, 0) + int(count)
    return counts


def ordinal(hostname: str) -> int:
    """Returns the number of a StatefulSet's pod, 0 for another name."""
    last = hostname.rpartition("-")[2]
    return int(last) if last.isdigit() else 0


def read_node(environment: Mapping[str, str] = os.environ) -> Node:
    """Reads SLURM_NODE."""
    value = _object(environment, pod_variables.NODE)
    return Node(
        controller=str(value[NodeKey.CONTROLLER]),
        node_set=str(value.get(NodeKey.NODE_SET, "")),
        cpus=int(value.get(NodeKey.CPUS, 0)),
        memory_mib=int(value.get(NodeKey.MEMORY_MIB, 0)),
        processes=value.get(NodeKey.PROCESSES),
        gres=value.get(NodeKey.GRES),
        gres_with_files=tuple(map(str, value.get(NodeKey.GRES_WITH_FILES, ()))),
        divided_gpus=value.get(NodeKey.DIVIDED_GPUS),
        weight=int(value.get(NodeKey.WEIGHT, 1)),
        weight_bucket=int(value.get(NodeKey.WEIGHT_BUCKET, 1)),
        options=tuple(sorted((str(key), int(number)) for key, number in value.get(NodeKey.OPTIONS, {}).items())),
        nccl=tuple(sorted((str(name), str(text)) for name, text in value.get(NodeKey.NCCL, {}).items())),
        pins_memory=bool(value.get(NodeKey.PINS_MEMORY, False)),
        shares_cpus=bool(value.get(NodeKey.SHARES_CPUS, False)),
        least_free_percent=int(value.get(NodeKey.LEAST_FREE_PERCENT, policies.LEAST_FREE_PERCENT)),
        rdma=int(value.get(NodeKey.RDMA, 0)),
        rdma_adapters=int(value.get(NodeKey.RDMA_ADAPTERS, 0)),
        other_gpus=bool(value.get(NodeKey.OTHER_GPUS, False)),
        unknown_drains=bool(value.get(NodeKey.UNKNOWN_DRAINS, False)),
        hangs_after=int(value.get(NodeKey.HANGS_AFTER, 0)),
        grace_seconds=int(value.get(NodeKey.GRACE_SECONDS, 0)),
    )


def read_jail(environment: Mapping[str, str] = os.environ) -> Jail:
    """Reads SLURM_JAIL."""
    value = _object(environment, pod_variables.JAIL)
    persistent = tuple(_plain_path(JailKey.PERSISTENT, path) for path in value.get(JailKey.PERSISTENT, ()))
    submounts = tuple(_submount(submount) for submount in value.get(JailKey.SUBMOUNTS, ()))
    tmp_mib = int(value.get(JailKey.TMP_MIB, policies.TMP_MIB))
    shm_mib = int(value.get(JailKey.SHM_MIB, tmp_mib))
    keep_roots = int(value.get(JailKey.KEEP_ROOTS, policies.KEEP_ROOTS))
    return Jail(str(value[JailKey.REVISION]), persistent, submounts, tmp_mib, shm_mib, keep_roots)


def read_login(environment: Mapping[str, str] = os.environ) -> Login:
    """Reads SLURM_LOGIN."""
    value = _object(environment, pod_variables.LOGIN)
    cpu = value.get(LoginKey.CPU_MILLIS)
    return Login(
        memory_mib=int(value[LoginKey.MEMORY_MIB]),
        processes=int(value[LoginKey.PROCESSES]),
        cpu_millis=None if cpu is None else int(cpu),
        passwords=bool(value.get(LoginKey.PASSWORDS, False)),
        ldap=bool(value.get(LoginKey.LDAP, False)),
        allow_users=tuple(map(str, value.get(LoginKey.ALLOW_USERS, ()))),
        allow_groups=tuple(map(str, value.get(LoginKey.ALLOW_GROUPS, ()))),
    )


def read_ldap(environment: Mapping[str, str] = os.environ) -> Ldap:
    """Reads SLURM_DIRECTORY."""
    value = _object(environment, pod_variables.LDAP)
    return Ldap(
        uri=str(value[LdapKey.URI]),
        base=str(value[LdapKey.BASE]),
        user_filter=str(value[LdapKey.USER_FILTER]),
        group_filter=str(value[LdapKey.GROUP_FILTER]),
        bind=value.get(LdapKey.BIND),
        own_authority=bool(value.get(LdapKey.OWN_AUTHORITY, False)),
        seconds=int(value[LdapKey.SECONDS]),
    )


def read_rest(environment: Mapping[str, str] = os.environ) -> Rest:
    """Reads SLURM_REST, which may be missing."""
    return Rest(bool(json.loads(environment.get(pod_variables.REST) or "{}").get(RestKey.SOCKET, False)))


def read_users(environment: Mapping[str, str] = os.environ) -> tuple[User, ...]:
    """Reads SLURM_USERS, which may be missing."""
    users = json.loads(environment.get(pod_variables.USERS) or "[]")
    return tuple(
        User(str(user["name"]), tuple(user.get("sshPublicKeys", ())), bool(user.get("sudo", False))) for user in users
    )


def read_accounting(environment: Mapping[str, str] = os.environ) -> Accounting | None:
    """Reads SLURM_ACCOUNTING; None without accounting."""
    if pod_variables.ACCOUNTING not in environment:
        return None
    value = _object(environment, pod_variables.ACCOUNTING)
    return Accounting(host=str(value[AccountingKey.HOST]), port=int(value[AccountingKey.PORT]))


def _object(environment: Mapping[str, str], name: str) -> dict[str, Any]:
    try:
        value = json.loads(environment[name])
    except KeyError:
        raise NodeError(f"the pod has no environment variable {name}") from None
    except json.JSONDecodeError as error:
        raise NodeError(f"{name} is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise NodeError(f"{name} is no JSON object")
    return value


def _submount(value: Mapping[str, Any]) -> Submount:
    return Submount(
        path=_plain_path(JailKey.SUBMOUNTS, str(value[SubmountKey.PATH])),
        source=str(value.get(SubmountKey.SOURCE, "")),
        memory_mib=int(value.get(SubmountKey.MEMORY_MIB, 0)),
        everybodys=bool(value.get(SubmountKey.EVERYBODYS, False)),
        read_only=bool(value.get(SubmountKey.READ_ONLY, False)),
    )


def _plain_path(key: str, path: str) -> str:
    plain = Path(path)
    if not plain.is_absolute() or ".." in plain.parts or len(plain.parts) < 2:
        raise NodeError(f"{pod_variables.JAIL} {key}: {path!r} is no absolute path below /")
    return str(plain)
