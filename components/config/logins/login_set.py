"""Configuration of further sets of login nodes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from components.config.logins.limits import LoginLimits
from components.config.logins.service import LoginService
from components.config.model import Model, setting
from components.config.nodes.submounts import Submount
from components.config.pods.pod_options import POD_OPTIONS, PlacedPodOptions
from components.config.pods.resources import LoginResources
from components.config.rule import Violation, rule
from components.config.values.object_names import ObjectName, SetName
from components.config.values.quantities import Duration, WholeNumber, memory_mib
from components.config.values.users import GroupName, UserName
from contract import names

INHERITED: Final = (
    *("replicas", "service", "resources", "submounts", "grace", "limits", "pod", "passwords"),
    *("allow_users", "allow_groups"),
)
"""Fields of LoginSet that are Login's where a set leaves them out."""
ONE_LIST: Final = "nothing beside allowUsers: sshd would let in only those who are in both lists"


class LoginSet(Model):
    """A further set of login nodes. What it leaves out is as in `login`; a section that it has replaces login's."""

    name: SetName = setting("Name of the set, and the end of its objects' names: `slurm-login-NAME`.")
    replicas: WholeNumber | None = setting(
        "Number of login nodes behind its Service; left out: login's.", default=None, ge=0, le=100
    )
    service: LoginService | None = setting(
        "How SSH is reached; replaces login.service. Without it, the set has login.service but for its nodePort.",
        default=None,
    )
    resources: LoginResources | None = setting("What each login node asks for; replaces login.resources.", default=None)
    submounts: list[Submount] | None = setting(
        "Paths of the jail that are another volume's there; replaces login.submounts.", default=None
    )
    grace: Duration | None = setting(
        "How long sessions stay when their login node is replaced; left out: login's.", unit="s, m or h", default=None
    )
    limits: LoginLimits | None = setting("Limits of one user there; replaces login.limits.", default=None)
    pod: PlacedPodOptions | None = setting(f"{POD_OPTIONS} Replaces login.pod.", default=None)
    passwords: bool | None = setting("Whether passwords open SSH, too; left out: login's.", default=None)
    allow_users: list[UserName] | None = setting(
        "Users who may log in there; replaces login.allowUsers and login.allowGroups.", default=None, min_length=1
    )
    allow_groups: list[GroupName] | None = setting(
        "Unix groups whose users may log in there; replaces login.allowUsers and login.allowGroups.",
        default=None,
        min_length=1,
    )
    own_host_keys: bool = setting(
        "Whether the set has SSH host keys of its own, generated once; otherwise it has login's.", default=False
    )
    existing_ssh_secret: ObjectName | None = setting(
        "A Secret with SSH host keys for the set, as credentials.existingSshSecret.", default=None
    )

    @rule
    def _one_list(self) -> Iterator[Violation]:
        if self.allow_users and self.allow_groups:
            yield Violation("allowGroups", want=ONE_LIST)

    @rule
    def _one_source(self) -> Iterator[Violation]:
        if self.own_host_keys and self.existing_ssh_secret:
            yield Violation(
                "existingSshSecret", want="nothing beside ownHostKeys: true: a set has one pair of each type"
            )


@dataclass(frozen=True, slots=True)
class LoginNodes:
    """The login nodes of one set, with all that they have. The fields are LoginSet's.

    Attributes:
        name: Name of the set; empty for the nodes of `login` itself.
    """

    name: str
    replicas: int
    service: LoginService
    resources: LoginResources
    submounts: Sequence[Submount]
    grace: str
    limits: LoginLimits
    pod: PlacedPodOptions
    passwords: bool
    allow_users: Sequence[str] | None
    allow_groups: Sequence[str] | None
    own_host_keys: bool = False
    existing_ssh_secret: str | None = None

    @property
    def object_name(self) -> str:
        """Name of their StatefulSet, Service and network policy."""
        return f"{names.LOGIN}-{self.name}" if self.name else names.LOGIN

    @property
    def component(self) -> str:
        """Their component. Nothing that selects the nodes of `login` finds those of a set."""
        return names.LOGIN_SET if self.name else "login"

    @property
    def labels(self) -> dict[str, str]:
        """Labels by which the nodes of one set are found, besides their component."""
        return {names.LABEL_LOGIN_SET: self.name} if self.name else {}

    @property
    def host_keys(self) -> str:
        """Name of the Secret with the host keys that are generated for this set."""
        return f"{self.object_name}-host-keys"

    @property
    def user_memory_mib(self) -> int:
        """Memory of one user on a login node."""
        limit = self.limits.memory_per_user
        return memory_mib(limit) if limit is not None else memory_mib(self.resources.memory) // 2
