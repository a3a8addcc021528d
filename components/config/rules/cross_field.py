"""Checks between several parts of a configuration.

They read the raw values, so that a problem is told together with errors inside a single value, not only once
those are repaired.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from components.config.addons.certificates import certificate_problems
from components.config.addons.monitoring import monitoring_problems
from components.config.pods import login_resources
from components.config.problems import NOTHING, Problem
from components.config.rules import cross_field_gpus, cross_field_network, cross_field_submounts
from components.config.values.quantities import memory_bytes
from components.config.values.raw import mapping as _map
from components.config.values.raw import rows as _rows
from components.config.values.slurm_options import refusal
from contract import names, paths

_SLURMS = (paths.PREFIX, paths.SPOOL_DIR)
"""What every node brings by itself, over whatever the volume has there."""
_SYSTEM = tuple(path for path in cross_field_submounts.SYSTEM if path != "/var")
"""In /var people may have folders of their own."""
_PYXIS, _PYXIS_EPILOG = "spank_pyxis.so", "container_scope=job"
"""Its epilog fails outside of the jail, and Slurm drains the node for that (Pyxis 0.24, pyxis_slurmd.c)."""


def _duplicates(key: str, rows: list[tuple[int, Mapping[str, Any]]], path: tuple[str | int, ...]) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for index, row in rows:
        name = row.get(key)
        if not isinstance(name, str):
            continue
        if name in first:
            want = f"another name: {path[-1]}[{first[name]}] has this one"
            yield Problem((*path, index, key), name, want)
        first.setdefault(name, index)


def _node_sets(config: Mapping[str, Any]) -> Iterator[Problem]:
    rows = _rows(config.get("nodeSets"))
    yield from _duplicates("name", rows, ("nodeSets",))
    for index, row in rows:
        name = row.get("name")
        if isinstance(name, str) and name.startswith(names.RESERVED_PREFIX):
            want = f"a name that does not start with {names.RESERVED_PREFIX}: those are the cluster's own objects"
            yield Problem(("nodeSets", index, "name"), name, want)
        removal = _map(row.get("removal"))
        if (removal.get("jobs") == "deadline") != (removal.get("deadline") is not None):
            want = "a duration such as 24h with jobs: deadline, and nothing without it"
            yield Problem(("nodeSets", index, "removal", "deadline"), removal.get("deadline", NOTHING), want)
        resources = _map(row.get("resources"))
        try:
            left = memory_bytes(str(resources.get("memory"))) - memory_bytes(
                str(resources.get("reservedMemory", "256Mi"))
            )
        except ValueError:
            continue
        if left < 2**20:
            want = "more than resources.reservedMemory (256Mi unless set): nothing would be left for jobs"
            yield Problem(("nodeSets", index, "resources", "memory"), resources.get("memory"), want)


def _partitions(config: Mapping[str, Any]) -> Iterator[Problem]:
    rows = _rows(config.get("partitions"))
    yield from _duplicates("name", rows, ("partitions",))
    sets = [row["name"] for _, row in _rows(config.get("nodeSets")) if isinstance(row.get("name"), str)]
    default = None
    for index, row in rows:
        members = row.get("nodeSets")
        seen: set[str] = set()
        for position, member in enumerate(members if isinstance(members, list) else []):
            path = ("partitions", index, "nodeSets", position)
            if member not in sets:
                yield Problem(path, member, f"the name of a node set; there are: {', '.join(sets) or 'none'}")
            elif member in seen:
                yield Problem(path, member, "each node set once")
            seen.add(str(member))
        if row.get("default") is True:
            if default is not None:
                want = f"one default partition at most; partitions[{default}] is one already"
                yield Problem(("partitions", index, "default"), True, want)
            default = index


def _jail(config: Mapping[str, Any]) -> Iterator[Problem]:
    jail = _map(config.get("jail"))
    storage = _map(jail.get("storage"))
    modes = [mode for mode in ("existingClaim", "hostPath", "nfs", "className") if storage.get(mode) is not None]
    if len(modes) > 1:
        yield Problem(("jail", "storage"), modes, "one of them: each says where the volume comes from")
    given = jail.get("persistent")
    given = given if isinstance(given, list) else []
    folders = {index: path for index, path in enumerate(given) if isinstance(path, str) and path.startswith("/")}
    for index, path in folders.items():
        where = ("jail", "persistent", index)
        if path in given[:index]:
            yield Problem(where, path, "each path once")
        elif outer := next((other for other in folders.values() if path.startswith(f"{other}/")), None):
            yield Problem(where, path, f"no path inside another one: {outer} holds it already")
        elif own := next((own for own in _SLURMS if f"{path}/".startswith(f"{own}/")), None):
            yield Problem(where, path, f"a path outside of {own}, which is Slurm's own")
        elif path == "/var":
            want = "a folder of people's files, such as /var/www: /var has the packages' records, and slurmd's spool"
            yield Problem(where, path, want)
        elif system := next((each for each in _SYSTEM if f"{path}/".startswith(f"{each}/")), None):
            want = f"a path of people's files, outside of {system}: the system's own come from the image and the node"
            yield Problem(where, path, want)


def _login(config: Mapping[str, Any]) -> Iterator[Problem]:
    login = _map(config.get("login"))
    yield from _duplicates("name", _rows(login.get("users")), ("login", "users"))
    without_accounting = _map(config.get("accounting")).get("mode", "off") == "off"
    for index, row in _rows(login.get("users")):
        levels = [key for key in ("admin", "operator") if row.get(key) is True]
        if len(levels) > 1:
            want = "one of admin and operator: Slurm gives a person one AdminLevel"
            yield Problem(("login", "users", index, "operator"), True, want)
        for key in levels if without_accounting else []:
            want = (
                "accounting.mode mariadb or external: Slurm keeps its administrators there; without it, administer by "
                f"`kubectl exec {names.CONTROLLER}-0 -- scontrol`"
            )
            yield Problem(("login", "users", index, key), True, want)
    service = _map(login.get("service"))
    if service.get("type") == "NodePort" and service.get("loadBalancerSourceRanges"):
        got = service["loadBalancerSourceRanges"]
        want = "nothing: a NodePort Service hides the client's address, so every login would be refused"
        yield Problem(("login", "service", "loadBalancerSourceRanges"), got, want)
    per_user, memory = _map(login.get("limits")).get("memoryPerUser"), _map(login.get("resources")).get("memory")
    try:
        if memory_bytes(str(per_user)) > memory_bytes(str(memory or login_resources().memory)):
            want = "at most login.resources.memory (4Gi unless set): the whole node would end before one user"
            yield Problem(("login", "limits", "memoryPerUser"), per_user, want)
    except ValueError:
        return


def _directory(config: Mapping[str, Any]) -> Iterator[Problem]:
    directory = _map(config.get("directory"))
    if directory and directory.get("uri") is None:
        yield Problem(("directory", "uri"), NOTHING, "the directory's address, such as ldaps://ldap.example.org")
    if directory.get("uri") is not None and directory.get("base") is None:
        yield Problem(("directory", "base"), NOTHING, "the entry below which people are, such as dc=example,dc=org")
    bind, secret = directory.get("bindDn"), directory.get("bindPasswordSecret")
    if bind is not None and secret is None:
        yield Problem(("directory", "bindPasswordSecret"), NOTHING, "the Secret with the password of bindDn")
    if secret is not None and bind is None:
        yield Problem(("directory", "bindDn"), NOTHING, "whose password bindPasswordSecret is")


def _operator(config: Mapping[str, Any]) -> Iterator[Problem]:
    mode = _map(config.get("operator")).get("mode", "install")
    images = config.get("images")
    if mode == "install" and isinstance(images, Mapping) and images.get("operator") is None:
        yield Problem(("images", "operator"), NOTHING, "the operator's image, or operator.mode: existing")
    blind = _map(config.get("operator")).get("watchNodes") is False
    for index, row in _rows(config.get("nodeSets")) if blind else []:
        if _map(row.get("reactions")).get("replace") is True:
            path = ("nodeSets", index, "reactions", "replace")
            yield Problem(path, True, "false beside operator.watchNodes: false, or nodes that the operator may see")


def _accounting(config: Mapping[str, Any]) -> Iterator[Problem]:
    accounting = _map(config.get("accounting"))
    mode = accounting.get("mode", "off")
    images = config.get("images")
    if mode == "mariadb" and isinstance(images, Mapping) and images.get("database") is None:
        yield Problem(("images", "database"), NOTHING, "MariaDB's image, or another accounting.mode than mariadb")
    of_modes = {"storage": {"mariadb"}, "databaseResources": {"mariadb"}, "external": {"external"}}
    for key in accounting.keys() - {"mode"}:
        modes = of_modes.get(key, {"mariadb", "external"})
        if mode in ("mariadb", "external", "off") and mode not in modes:
            got = "[secret]" if key == "external" else accounting[key]
            want = f"nothing: accounting.mode is {mode}, and this is for {' and '.join(sorted(modes))}"
            yield Problem(("accounting", key), got, want)
    existing = _map(config.get("credentials")).get("existingDatabaseSecret")
    if existing is not None and mode in ("external", "off"):
        want = f"nothing: accounting.mode is {mode}, and this is for mariadb"
        yield Problem(("credentials", "existingDatabaseSecret"), existing, want)
    if mode == "external":
        yield from _external(accounting.get("external"))


def _external(external: Any) -> Iterator[Problem]:
    path = ("accounting", "external")
    if external is None:
        yield Problem(path, NOTHING, "connection, or host with passwordSecret, for accounting.mode: external")
    if not isinstance(external, Mapping):
        return
    if external.get("connection") is not None:
        for key in ("host", "port", "user", "database", "passwordSecret"):
            if key in external:
                yield Problem((*path, key), external[key], "nothing: connection says it already")
        return
    if external.get("host") is None:
        yield Problem((*path, "host"), NOTHING, "the server's name, or connection in place of the parts")
    if external.get("passwordSecret") is None:
        yield Problem((*path, "passwordSecret"), NOTHING, "a Secret with the password, or connection")


def _spank_plugins(config: Mapping[str, Any]) -> Iterator[Problem]:
    rows = _rows(_map(config.get("slurm")).get("spankPlugins"))
    path = ("slurm", "spankPlugins")
    yield from _duplicates("file", rows, path)
    for index, row in rows:
        arguments = row.get("arguments")
        if row.get("file") == _PYXIS and isinstance(arguments, list) and _PYXIS_EPILOG in arguments:
            want = "container_scope=global: else Pyxis has slurmd run enroot at a job's end, where there is none"
            yield Problem((*path, index, "arguments", arguments.index(_PYXIS_EPILOG)), _PYXIS_EPILOG, want)


def _options(config: Mapping[str, Any]) -> Iterator[Problem]:
    options = _map(_map(config.get("slurm")).get("options"))
    first: dict[str, str] = {}
    for name in options:
        other = first.setdefault(name.lower(), name)
        if other != name:
            yield Problem(("slurm", "options", name), options[name], f"one of {other} and {name}: Slurm reads one key")
        if want := refusal(name, str(options[name])):
            yield Problem(("slurm", "options", name), options[name], want)


def cross_field_problems(config: Mapping[str, Any]) -> list[Problem]:
    """Everything in which the parts of a configuration do not fit together."""
    checks = (
        _node_sets,
        _partitions,
        _jail,
        _login,
        _directory,
        _operator,
        _accounting,
        _options,
        _spank_plugins,
        monitoring_problems,
        certificate_problems,
        cross_field_network.cross_field_problems,
        cross_field_gpus.cross_field_problems,
        cross_field_submounts.cross_field_problems,
    )
    return [problem for check in checks for problem in check(config)]
