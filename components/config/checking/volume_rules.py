"""Rules about volumes in pods: submounts of the jail, and volumes that the site adds."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from components.config.model import NotParsedError
from components.config.nodes.node_sets import NodeSet
from components.config.nodes.submounts import Submount
from components.config.pods.pod_options import PodOptions
from components.config.program import Config
from components.config.rule import Violation, one_of
from components.config.values.files import is_within, meets
from contract import names

_OWN_CLAIMS: Final = (names.JAIL, names.CONTROLLER_STATE, names.DATABASE)


def login_submounts(config: Config) -> Iterator[Violation]:
    """Submounts of login nodes."""
    yield from _of_logins(config, "submounts", _submounts)


def node_submounts(config: Config, node_set: NodeSet) -> Iterator[Violation]:
    """Submounts of a node set."""
    for violation in _submounts(config, node_set.submounts):
        yield violation.inside("submounts")


def pods(config: Config) -> Iterator[Violation]:
    """Volumes of the site in pods without jobs."""
    for section in ("controller", "rest", "accounting"):
        with suppress(NotParsedError):
            for violation in _pod_volumes(config, getattr(config, section).pod):
                yield violation.inside(section, "pod")
    yield from _of_logins(config, "pod", _pod_volumes)


def node_pods(config: Config, node_set: NodeSet) -> Iterator[Violation]:
    """Volumes of the site in the pods of a node set."""
    for violation in _pod_volumes(config, node_set.pod):
        yield violation.inside("pod")


def _of_logins(config: Config, field: str, check: Callable[[Config, Any], Iterator[Violation]]) -> Iterator[Violation]:
    """Violations by a field of `login` and by that of its sets, where they have one of their own."""
    with suppress(NotParsedError):
        for violation in check(config, getattr(config.login, field)):
            yield violation.inside("login", field)
    for index, login_set in enumerate(config.login.sets):
        with suppress(NotParsedError):
            own = getattr(login_set, field)
            for violation in check(config, own) if own is not None else ():
                yield violation.inside("login", "sets", index, field)


def _pod_volumes(config: Config, pod: PodOptions) -> Iterator[Violation]:
    """Volumes of the site that would show what is the cluster's own."""
    allowed, given = config.jail.allowed_host_paths, config.credentials
    secrets = {given.existing_secret, given.existing_ssh_secret, given.existing_database_secret}
    secrets |= {getattr(login_set, "existing_ssh_secret", None) for login_set in config.login.sets}
    own = {"secret": secrets, "claim": {config.jail.storage.existing_claim}, "configMap": set[str | None]()}
    for index, volume in enumerate(pod.volumes):
        for key, field in (("secret", "secret"), ("claim", "claim"), ("configMap", "config_map")):
            name = getattr(volume, field, None)
            if name is not None and (name.startswith(names.RESERVED_PREFIX) or name in own[key]):
                want = f"one of yours: what is named {names.RESERVED_PREFIX}… or holds keys is the cluster's own"
                yield Violation("volumes", index, key, want=want)
        path = getattr(volume, "host_path", None)
        if path is not None:
            yield from _host_path(allowed, path, "volumes", index)
        jail = config.jail.storage.host_path
        if path is not None and jail is not None and meets(path, [jail]):
            want = f"a path outside of {jail}, which is the jail's volume"
            yield Violation("volumes", index, "hostPath", want=want)


def _submounts(config: Config, submounts: Sequence[Submount]) -> Iterator[Violation]:
    """Conflicts of a pod's submounts with each other and with the jail."""
    earlier: dict[str, int] = {}
    allowed = config.jail.allowed_host_paths
    claims = (*_OWN_CLAIMS, config.jail.storage.existing_claim)
    for index, submount in enumerate(submounts):
        path = getattr(submount, "path", None)
        if path is not None:
            if (met := meets(path, earlier)) is not None:
                want = "each path once" if met == path else "paths that do not lie in one another"
                yield Violation(index, "path", want=f"{want}: submounts[{earlier[met]}] is {met}")
            elif (hidden := meets(path, config.jail.persistent)) is not None:
                want = f"a path outside of {hidden}, which is persistent: people's files are there"
                yield Violation(index, "path", want=want)
            earlier.setdefault(path, index)
        host_path = getattr(submount, "host_path", None)
        if host_path is not None:
            yield from _host_path(allowed, host_path, index)
        claim = getattr(submount, "claim", None)
        if claim is not None and getattr(claim, "name", None) in claims:
            want = "a claim of yours: this one is the cluster's own, with what users must not read"
            yield Violation(index, "claim", "name", want=want)


def _host_path(allowed: Sequence[str], path: str, *at: str | int) -> Iterator[Violation]:
    """Pods see those folders of Kubernetes nodes that the configuration allows."""
    if not any(is_within(path, folder) for folder in allowed):
        want = one_of("a path at or below one of jail.allowedHostPaths", allowed)
        yield Violation(*at, "hostPath", want=want)
