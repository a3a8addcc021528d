"""Configuration of the login nodes."""

from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from typing import Final

from components.config.logins.limits import LoginLimits
from components.config.logins.login_set import INHERITED, ONE_LIST, LoginNodes, LoginSet
from components.config.logins.service import LoginService
from components.config.model import Model, NotParsedError, setting
from components.config.nodes.submounts import Submount, too_much_memory
from components.config.pods.pod_options import POD_OPTIONS, PlacedPodOptions
from components.config.pods.resources import LoginResources
from components.config.rule import Violation, named_twice, rule
from components.config.values.quantities import Duration, WholeNumber, memory_mib
from components.config.values.users import GroupName, SshPublicKey, UserName
from contract import names

_WHOLE_NODE: Final = "the whole node would end before one user"


class AdminLevel(StrEnum):
    """An administrator's rights in Slurm; the values are slurmdbd's."""

    ADMINISTRATOR = "Administrator"
    OPERATOR = "Operator"


class User(Model):
    """An ordinary user, made in a new root if missing; never changed or removed afterwards."""

    name: UserName = setting("Login name.")
    ssh_public_keys: list[SshPublicKey] = setting("Keys that may log in, one OpenSSH line each.", min_length=1)
    sudo: bool = setting("Whether the user may become root in the jail.", default=False)
    admin: bool = setting("Whether the user administers Slurm (AdminLevel=Administrator in slurmdbd).", default=False)
    operator: bool = setting(
        "Whether the user operates Slurm (AdminLevel=Operator): all jobs and nodes, not accounts' administrators.",
        default=False,
    )

    @rule
    def _one_level(self) -> Iterator[Violation]:
        if self.admin and self.operator:
            yield Violation("operator", want="one of admin and operator: Slurm gives a person one AdminLevel")

    @property
    def admin_level(self) -> AdminLevel | None:
        """Slurm's AdminLevel; None for an ordinary user."""
        return AdminLevel.ADMINISTRATOR if self.admin else AdminLevel.OPERATOR if self.operator else None


class Login(Model):
    """Login nodes: SSH into the jail."""

    replicas: WholeNumber = setting("Number of login nodes behind the Service.", default=1, ge=0, le=100)
    service: LoginService = setting("How SSH is reached.", factory=LoginService)
    users: list[User] = setting("First users; more are made with adduser in the jail.", factory=list)
    resources: LoginResources = setting("What each login node asks for.", factory=LoginResources)
    submounts: list[Submount] = setting(
        "Paths of the jail that are another volume's on login nodes, such as data sets that jobs see too.", factory=list
    )
    grace: Duration = setting(
        "How long sessions stay when their login node is replaced. Users are told at once.",
        unit="s, m or h",
        default="5m",
    )
    limits: LoginLimits = setting("Limits of one user on a login node.", factory=LoginLimits)
    pod: PlacedPodOptions = setting(POD_OPTIONS, factory=PlacedPodOptions)
    passwords: bool = setting(
        "Whether passwords (set with passwd in the jail) open SSH, too; otherwise keys alone do.", default=False
    )
    allow_users: list[UserName] | None = setting(
        "Users who may log in; left out: all, or those of allowGroups.", default=None, min_length=1
    )
    allow_groups: list[GroupName] | None = setting(
        "Unix groups whose users may log in; left out: all, or those of allowUsers.", default=None, min_length=1
    )
    sets: list[LoginSet] = setting("Further sets of login nodes. What one leaves out is as in login.", factory=list)

    @rule
    def _users(self) -> Iterator[Violation]:
        yield from named_twice(self.users, "users")

    @rule
    def _one_list(self) -> Iterator[Violation]:
        if self.allow_users and self.allow_groups:
            yield Violation("allowGroups", want=ONE_LIST)

    @rule
    def _memory_per_user(self) -> Iterator[Violation]:
        if self.limits.is_more_than(self.resources):
            want = f"at most login.resources.memory ({self.resources.memory}): {_WHOLE_NODE}"
            yield Violation("limits", "memoryPerUser", want=want)

    @rule
    def _submounts(self) -> Iterator[Violation]:
        memory = self.resources.memory
        yield from too_much_memory(self.submounts, memory_mib(memory), f"login.resources.memory ({memory})")

    @rule
    def _names_of_sets(self) -> Iterator[Violation]:
        yield from named_twice(self.sets, "sets")

    @rule
    def _memory_of_sets(self) -> Iterator[Violation]:
        for index, login_set in enumerate(self.sets):
            with suppress(NotParsedError):
                resources, limits = login_set.resources or self.resources, login_set.limits or self.limits
                if login_set.limits and limits.is_more_than(resources):
                    want = f"at most the memory of its login nodes ({resources.memory}): {_WHOLE_NODE}"
                    yield Violation("sets", index, "limits", "memoryPerUser", want=want)
                elif login_set.resources and limits.is_more_than(resources):
                    want = (
                        f"at least memoryPerUser of login.limits ({limits.memory_per_user}), or limits of the set's own"
                    )
                    yield Violation("sets", index, "resources", "memory", want=want)

    @rule
    def _submounts_of_sets(self) -> Iterator[Violation]:
        for index, login_set in enumerate(self.sets):
            with suppress(NotParsedError):
                memory = (login_set.resources or self.resources).memory
                submounts = self.submounts if login_set.submounts is None else login_set.submounts
                room = f"the memory of its login nodes ({memory})"
                for violation in too_much_memory(submounts, memory_mib(memory), room):
                    yield violation.inside("sets", index)

    @rule
    def _node_ports(self) -> Iterator[Violation]:
        first = {self.service.node_port: "login.service.nodePort"}
        for index, login_set in enumerate(self.sets):
            with suppress(NotParsedError):
                port = login_set.service.node_port if login_set.service else None
                if port is not None and port in first:
                    yield Violation(
                        "sets", index, "service", "nodePort", want=f"another port: {first[port]} is this one"
                    )
                first.setdefault(port, f"login.sets[{index}].service.nodePort")

    @rule
    def _ranges_of_sets(self) -> Iterator[Violation]:
        """A service of a set's own has none of login's keys. Nobody opens SSH to everybody by leaving a key out."""
        if not self.service.load_balancer_source_ranges:
            return
        for index, login_set in enumerate(self.sets):
            with suppress(NotParsedError):
                service = login_set.service
                if service is not None and "load_balancer_source_ranges" not in service.model_fields_set:
                    want = (
                        "a list, [] for all addresses: a service of a set's own has none of login.service, which lets "
                        f"in {', '.join(self.service.load_balancer_source_ranges)} alone"
                    )
                    yield Violation("sets", index, "service", "loadBalancerSourceRanges", want=want)

    @property
    def nodes(self) -> LoginNodes:
        """The login nodes of the section itself."""
        return LoginNodes(name="", **{field: getattr(self, field) for field in INHERITED})

    def nodes_of(self, login_set: LoginSet) -> LoginNodes:
        """The login nodes of a set, with what it has from this section."""
        own = {field: value for field in INHERITED if (value := getattr(login_set, field)) is not None}
        if not own.keys().isdisjoint({"allow_users", "allow_groups"}):
            # Both lists together say who may log in.
            own = {"allow_users": None, "allow_groups": None, **own}
        has = {field: own[field] if field in own else getattr(self, field) for field in INHERITED}
        if "service" not in own:
            # A port of the Kubernetes nodes is one Service's.
            has["service"] = self.service.model_copy(update={"node_port": None})
        return LoginNodes(
            name=login_set.name,
            own_host_keys=login_set.own_host_keys,
            existing_ssh_secret=login_set.existing_ssh_secret,
            **has,
        )

    @property
    def nodes_of_sets(self) -> list[LoginNodes]:
        """The login nodes of each further set."""
        return [self.nodes_of(login_set) for login_set in self.sets]

    @property
    def components(self) -> list[str]:
        """Components of all login nodes."""
        return ["login", names.LOGIN_SET] if self.sets else ["login"]
