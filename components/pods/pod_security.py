"""Security contexts and capabilities of the pods, each capability with its reason."""

from collections.abc import Mapping
from typing import Any, Final

from contract import names

ENTER_JAIL: Final = {
    "SYS_ADMIN": "mount the jail's tree; make and join the namespaces of jobs; writable cgroups for memory limits",
    "SYS_CHROOT": "setns into a mount namespace changes the root; sshd's unprivileged half lives in an empty root",
    "SETPCAP": "drop capabilities from the bounding set before a user's code runs",
}
BECOME_USER: Final = {
    "SETUID": "run steps and sessions as their user; sudo in the jail",
    "SETGID": "the same for groups",
    "KILL": "signal processes of users",
    "CHOWN": "give a job's files, terminal and spool to its user; package managers in the jail",
    "DAC_OVERRIDE": "reach files of users as root; package managers in the jail",
    "FOWNER": "change modes of files of other owners; package managers in the jail",
    "FSETID": "keep set-id bits of files that package managers write",
    "SETFCAP": "packages whose programs carry file capabilities",
    "AUDIT_WRITE": "sudo and sshd refuse to work where the kernel audits and they cannot write records",
}
WORKER_CAPABILITIES: Final[Mapping[str, str]] = {
    **ENTER_JAIL,
    **BECOME_USER,
    "NET_BIND_SERVICE": "none uses it: slurmstepd gives it up, and so can't look into slurmd, tini and the entry",
}
RDMA: Final = {
    # The jail removes both from every step. A job pins memory within the limit that it inherits, without a capability.
    "SYS_RESOURCE": "raise the limit of locked memory for slurmd, from whom jobs inherit it: RDMA pins their buffers",
    "IPC_LOCK": "pin memory outside of steps, as a check of the fabric does before the node takes jobs",
}
LOGIN_CAPABILITIES: Final[Mapping[str, str]] = {
    **ENTER_JAIL,
    **BECOME_USER,
    "NET_BIND_SERVICE": "sshd listens on port 22",
}
POPULATE_CAPABILITIES: Final[Mapping[str, str]] = {
    "SYS_PTRACE": "read the image container's root as /proc/PID/root",
    "CHOWN": "owners of the image's files",
    "DAC_OVERRIDE": "read and write files of every owner",
    "FOWNER": "modes and times of files of every owner",
    "FSETID": "set-id bits of the image's files",
    "SETFCAP": "file capabilities of the image's files",
    "MKNOD": "device files of the image",
}
LDAP_CAPABILITIES: Final[Mapping[str, str]] = {
    "CHOWN": "homes belong to their users, account files stay their owner's",
    "DAC_OVERRIDE": "account files that only root's group may read; folders of other owners",
    "FOWNER": "modes of account files that another id owns",
}

RUNTIME_SECCOMP: Final = {"seccompProfile": {"type": "RuntimeDefault"}}


def unprivileged_pod(uid: int) -> dict[str, Any]:
    """Return the security context of a pod that runs as one ordinary id, which also reads its volumes."""
    return {**RUNTIME_SECCOMP, "runAsNonRoot": True, "runAsUser": uid, "runAsGroup": uid, "fsGroup": uid}


def unprivileged_container() -> dict[str, Any]:
    """Return the security context of a container that needs nothing from the kernel."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def root_pod() -> dict[str, Any]:
    """Return the security context of a pod that starts as root."""
    return {**RUNTIME_SECCOMP, "runAsUser": 0, "runAsGroup": 0}


def root_container(capabilities: Mapping[str, str]) -> dict[str, Any]:
    """Return the security context of a root container with these capabilities and no other."""
    return {"capabilities": {"drop": ["ALL"], "add": sorted(capabilities)}}


def mounting_container(capabilities: Mapping[str, str]) -> dict[str, Any]:
    """Return `root_container` for mounts: the default AppArmor profile of container runtimes denies them all."""
    return {**root_container(capabilities), "appArmorProfile": {"type": "Unconfined"}}


def node_container(capabilities: Mapping[str, str]) -> dict[str, Any]:
    """Return `mounting_container` with a read-only root, for a node: slurmd opens users' files there (`srun --bcast`).

    Its daemons write to /run and slurmd's spool. The entry mounts a tmpfs at /tmp.
    """
    return {**mounting_container(capabilities), "readOnlyRootFilesystem": True}


def secret_files(secret: str, keys: list[str]) -> dict[str, Any]:
    """Return a Secret volume with these keys, readable by owner and group alone."""
    items = [{"key": key, "path": key} for key in keys]
    return {"secretName": secret, "defaultMode": 0o440, "items": items}


CONTROLLER_POD: Final = unprivileged_pod(names.SLURM_UID)
REST_POD: Final = unprivileged_pod(names.SLURMREST_UID)
DATABASE_POD: Final = unprivileged_pod(names.DATABASE_UID)
OPERATOR_POD: Final = unprivileged_pod(names.OPERATOR_UID)
