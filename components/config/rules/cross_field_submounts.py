"""Checks of submounts against each other, the jail's own paths and the pods' memory; they read the raw values."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from components.config.problems import NOTHING, Problem
from components.config.values.quantities import memory_bytes
from components.config.values.raw import mapping as _map
from components.config.values.raw import rows as _rows
from contract import names, paths

SOURCES: Final = ("local", "emptyDir", "memory", "claim", "hostPath")

SYSTEM: Final = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", paths.PREFIX, "/proc", "/run", "/sbin"),
    *("/sys", "/tmp", "/usr", "/var"),  # noqa: S108 - nothing is written there
)
"""What the image, the node or Slurm brings; /var has the packages' records and slurmd's spool."""
_NODES_OWN: Final = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/root", "/run", "/sbin", "/sys", "/usr"),
    *("/var/lib/kubelet", "/var/run"),
)
"""Folders of a Kubernetes node by which root of the jail would have the node."""
_OWN_CLAIMS: Final = (names.JAIL, names.CONTROLLER_STATE, names.DATABASE)

Path = tuple[str | int, ...]
Rows = Sequence[tuple[int, Mapping[str, Any]]]


def _is_within(path: str, outer: str) -> bool:
    return path == outer or path.startswith(f"{outer}/")


def _meets(path: str, others: Any) -> str | None:
    """The one of the others that lies in, above or at the path."""
    return next((each for each in sorted(others) if _is_within(path, each) or _is_within(each, path)), None)


def _texts(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _paths(rows: Rows, at: Path, persistent: Sequence[str]) -> Iterator[Problem]:
    earlier: dict[str, int] = {}
    for index, row in rows:
        path = row.get("path")
        if not isinstance(path, str) or not path.startswith("/"):
            continue
        where = (*at, index, "path")
        if (met := _meets(path, earlier)) is not None:
            want = "each path once" if met == path else "paths that do not lie in one another"
            yield Problem(where, path, f"{want}: submounts[{earlier[met]}] is {met}")
        elif (hidden := _meets(path, persistent)) is not None:
            yield Problem(where, path, f"a path outside of {hidden}, which is persistent: people's files are there")
        elif (hidden := _meets(path, SYSTEM)) is not None:
            want = f"a path outside of {hidden}, which is the system's own, such as /scratch or /mnt/memory"
            yield Problem(where, path, want)
        earlier.setdefault(path, index)


def _sources(rows: Rows, at: Path, allowed: Sequence[str], claims: Sequence[Any]) -> Iterator[Problem]:
    for index, row in rows:
        given = [key for key in SOURCES if row.get(key) is not None]
        if len(given) != 1:
            got = given or NOTHING
            yield Problem((*at, index), got, f"exactly one of {', '.join(SOURCES)}: it says what stands at the path")
        host_path = row.get("hostPath")
        if isinstance(host_path, str) and not any(_is_within(host_path, each) for each in allowed):
            want = f"a path at or below one of jail.allowedHostPaths; there are: {', '.join(allowed) or 'none'}"
            yield Problem((*at, index, "hostPath"), host_path, want)
        claim = _map(row.get("claim")).get("name")
        if claim in claims:
            want = "a claim of yours: this one is the cluster's own, with what users must not read"
            yield Problem((*at, index, "claim", "name"), claim, want)


def _bytes(value: Any) -> int | None:
    try:
        return memory_bytes(str(value))
    except ValueError:
        return None


def _memory(rows: Rows, at: Path, room: int | None, of: str) -> Iterator[Problem]:
    """Memory that submounts take, against what the pod has besides."""
    sizes = {index: size for index, row in rows if (size := _bytes(row.get("memory"))) is not None}
    if room is not None and room >= 2**20 and sizes and room - sum(sizes.values()) < 2**20:
        want = f"memory sizes that are together less than {room // 2**20}Mi, {of}"
        yield Problem(at, [f"[{index}].memory: {size // 2**20}Mi" for index, size in sizes.items()], want)


def _host_paths(allowed: Sequence[str]) -> Iterator[Problem]:
    for index, path in enumerate(allowed):
        if (met := _meets(path, _NODES_OWN)) is not None:
            want = f"a folder of data, outside of {met}: root of the jail would have the Kubernetes node by it"
            yield Problem(("jail", "allowedHostPaths", index), path, want)


def cross_field_problems(config: Mapping[str, Any]) -> Iterator[Problem]:
    """Everything in which submounts do not fit together with each other and the rest."""
    jail = _map(config.get("jail"))
    allowed = _texts(jail.get("allowedHostPaths"))
    yield from _host_paths(allowed)
    persistent = _texts(jail.get("persistent", ["/home", "/root", "/srv"]))
    claims = [*_OWN_CLAIMS, _map(jail.get("storage")).get("existingClaim")]
    claims = [each for each in claims if each is not None]
    login = _map(config.get("login"))
    login_memory = _bytes(_map(login.get("resources")).get("memory", "4Gi"))
    places: list[tuple[Path, Any, int | None, str]] = [
        (("login", "submounts"), login.get("submounts"), login_memory, "login.resources.memory (4Gi unless set)")
    ]
    for index, row in _rows(config.get("nodeSets")):
        resources = _map(row.get("resources"))
        memory, reserved = _bytes(resources.get("memory")), _bytes(resources.get("reservedMemory", "256Mi"))
        room = None if memory is None or reserved is None else memory - reserved
        of = "what resources.memory leaves beside resources.reservedMemory"
        places.append((("nodeSets", index, "submounts"), row.get("submounts"), room, of))
    for at, value, room, of in places:
        rows = _rows(value)
        yield from _paths(rows, at, persistent)
        yield from _sources(rows, at, allowed, claims)
        yield from _memory(rows, at, room, of)
