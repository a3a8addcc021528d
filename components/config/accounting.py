"""Configuration of accounting: which jobs ran, for whom, and what they used."""

from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from typing import Final

from components.config.accounts.accounts import Account, RemovalPolicy
from components.config.accounts.between import CHECKS
from components.config.accounts.qos import Qos
from components.config.model import Model, NotParsedError, setting
from components.config.pods.pod_options import POD_OPTIONS, PlacedPodOptions
from components.config.pods.resources import AccountingResources, DatabaseResources
from components.config.rule import Violation, is_whole, rule
from components.config.slurm_keys import slurmdbd_conf
from components.config.storage import DatabaseStorage
from components.config.values.addresses import HostName
from components.config.values.connection import (
    DEFAULT_DATABASE,
    DEFAULT_PORT,
    DEFAULT_USER,
    Connection,
    ConnectionText,
    DatabaseName,
    DatabaseUser,
    parse_connection,
)
from components.config.values.object_names import ObjectName, SecretKey
from components.config.values.quantities import SlurmAge, SlurmTime, WholeNumber


class AccountingMode(StrEnum):
    """Kind of the accounting database."""

    MARIADB = "mariadb"
    EXTERNAL = "external"
    OFF = "off"


class Enforcement(StrEnum):
    """Requirements of slurmctld before it accepts a job; the values are those of AccountingStorageEnforce."""

    ASSOCIATIONS = "associations"
    LIMITS = "limits"
    QOS = "qos"
    SAFE = "safe"
    WCKEYS = "wckeys"
    NOJOBS = "nojobs"
    NOSTEPS = "nosteps"

    @property
    def asks_for_associations(self) -> bool:
        """Return whether slurmctld then demands an association (AccountingStorageEnforce in slurm.conf's manual)."""
        return self not in (Enforcement.NOJOBS, Enforcement.NOSTEPS)


_MODES_OF_KEYS: Final = {"storage": ("mariadb",), "databaseResources": ("mariadb",), "external": ("external",)}
"""Key → the modes that use it. All other keys are for every mode but off."""


class PasswordSecret(Model):
    """A Secret of the namespace that holds a password."""

    name: ObjectName = setting("Name of the Secret.")
    key: SecretKey = setting("Key of the password inside it.", default="password")


class AuthoritySecret(Model):
    """A Secret of the namespace that holds the CA of a server's certificate."""

    name: ObjectName = setting("Name of the Secret.")
    key: SecretKey = setting("Key of the CA's certificates (PEM) inside it.", default="ca.crt")


class ExternalDatabase(Model):
    """A MariaDB or MySQL server that is already there. Either connection, or host with passwordSecret."""

    connection: ConnectionText | None = setting(
        "mysql://user:password@host:port/database, with special characters percent-encoded; "
        "set it with `pulumi config set --secret --path`.",
        default=None,
    )
    host: HostName | None = setting("Host name or address of the server.", default=None)
    port: WholeNumber = setting("Port of the server.", default=DEFAULT_PORT, ge=1, le=65535)
    user: DatabaseUser = setting("User who owns the database.", default=DEFAULT_USER)
    database: DatabaseName = setting("Name of the database; slurmdbd makes it if it may.", default=DEFAULT_DATABASE)
    password_secret: PasswordSecret | None = setting("Where the password is.", default=None)
    ca_secret: AuthoritySecret | None = setting(
        "Where the CA is that must have signed the server's certificate; left out: the server proves itself by the "
        "password, which MariaDB can from 11.4 on.",
        default=None,
    )

    @property
    def parts(self) -> Connection:
        """Return the address of the server, from `connection` or from the separate fields."""
        if self.connection is not None:
            return parse_connection(self.connection.get_secret_value())
        # A rule refuses a configuration with neither of them.
        return Connection(self.host or "", self.port, self.user, self.database)


class Retention(Model):
    """Retention of records; left out: for ever. Older ones are purged at the start of each period."""

    jobs: SlurmAge | None = setting("Jobs (PurgeJobAfter).", unit="hours, days or months", default=None)
    job_scripts: SlurmAge | None = setting(
        "Scripts of jobs (PurgeJobScriptAfter), if slurm.options.AccountingStoreFlags has job_script. Left out: jobs.",
        unit="hours, days or months",
        default=None,
    )
    job_environments: SlurmAge | None = setting(
        "Environments of jobs (PurgeJobEnvAfter), if slurm.options.AccountingStoreFlags has job_env. Left out: jobs.",
        unit="hours, days or months",
        default=None,
    )
    steps: SlurmAge | None = setting("Steps (PurgeStepAfter).", unit="hours, days or months", default=None)
    events: SlurmAge | None = setting(
        "Events of nodes and of the cluster (PurgeEventAfter).", unit="hours, days or months", default=None
    )
    reservations: SlurmAge | None = setting(
        "Reservations (PurgeResvAfter).", unit="hours, days or months", default=None
    )
    suspensions: SlurmAge | None = setting(
        "Suspensions of jobs (PurgeSuspendAfter).", unit="hours, days or months", default=None
    )
    transactions: SlurmAge | None = setting(
        "Changes by administrators (PurgeTXNAfter).", unit="hours, days or months", default=None
    )
    usage: SlurmAge | None = setting(
        "Usage summed up for sreport (PurgeUsageAfter).", unit="hours, days or months", default=None
    )


class Priority(Model):
    """Order of waiting jobs (priority/multifactor). With all weights 0, the one submitted first starts first."""

    weight_age: WholeNumber = setting("Weight of the time that a job waited.", default=0, ge=0, le=4294967295)
    weight_fairshare: WholeNumber = setting(
        "Weight of how little its account used lately.", default=0, ge=0, le=4294967295
    )
    weight_job_size: WholeNumber = setting("Weight of a job's size.", default=0, ge=0, le=4294967295)
    weight_partition: WholeNumber = setting("Weight of its partition's priority.", default=0, ge=0, le=4294967295)
    weight_qos: WholeNumber = setting("Weight of its quality of service.", default=0, ge=0, le=4294967295)
    max_age: SlurmTime = setting(
        "Waiting time after which age counts no more.", unit="days-hours:minutes:seconds or minutes", default="7-0"
    )
    decay_half_life: SlurmTime = setting(
        "After this time usage counts half.", unit="days-hours:minutes:seconds or minutes", default="7-0"
    )


PRIORITY_KEYS: Final = {
    "PriorityWeightAge": "weightAge",
    "PriorityWeightFairshare": "weightFairshare",
    "PriorityWeightJobSize": "weightJobSize",
    "PriorityWeightPartition": "weightPartition",
    "PriorityWeightQOS": "weightQos",
    "PriorityMaxAge": "maxAge",
    "PriorityDecayHalfLife": "decayHalfLife",
}
"""Key of slurm.conf → the key of accounting.priority that sets it."""


class Accounting(Model):
    """slurmdbd and its database. Jobs run while either is away; what happened is recorded afterwards."""

    mode: AccountingMode = setting(
        "mariadb: the program declares a MariaDB; external: one that is there is used; off: nothing is recorded.",
        default=AccountingMode.OFF,
    )
    resources: AccountingResources = setting("What the pod of slurmdbd asks for.", factory=AccountingResources)
    pod: PlacedPodOptions = setting(POD_OPTIONS, factory=PlacedPodOptions)
    storage: DatabaseStorage = setting("The volume of the database, for mode mariadb.", factory=DatabaseStorage)
    database_resources: DatabaseResources = setting(
        "What the pod of the database asks for, for mode mariadb; its buffer pool follows from memory.",
        factory=DatabaseResources,
    )
    external: ExternalDatabase | None = setting("The server to use, for mode external.", default=None)
    enforce: list[Enforcement] = setting(
        "What a job needs to be taken. Left out: every user may run jobs, known to accounting or not.", factory=list
    )
    retention: Retention = setting("How long records are kept.", factory=Retention)
    options: dict[slurmdbd_conf.OptionName, slurmdbd_conf.OptionValue] = setting(
        "Further lines of slurmdbd.conf, key to value; docs/slurm-keys.md lists them. A change restarts slurmdbd.",
        factory=dict,
    )
    priority: Priority = setting("What decides which waiting job starts first.", factory=Priority)
    qos: list[Qos] = setting("QOS that the operator brings to slurmdbd; see docs/accounting.md.", factory=list)
    accounts: list[Account] = setting("Accounts, with their users, that the operator brings to slurmdbd.", factory=list)
    removal: RemovalPolicy = setting(
        "What becomes of QOS, accounts and users that a configuration made and names no more. keep: they stay. "
        "delete: they go, unless jobs or things of others need them.",
        default=RemovalPolicy.KEEP,
    )

    @rule
    def _accounts(self) -> Iterator[Violation]:
        for check in CHECKS:
            with suppress(NotParsedError):
                yield from check(self.qos, self.accounts)

    @rule
    def _options(self) -> Iterator[Violation]:
        for name, value in self.options.items():
            if want := slurmdbd_conf.refusal(name, value):
                yield Violation("options", name, want=want)

    @rule
    def _enforced(self) -> Iterator[Violation]:
        if not is_whole(self.enforce):
            return  # One of them is wrong, and may be meant for limits.
        users = [user for account in self.accounts for user in getattr(account, "users", ())]
        rows: list[Model] = [*self.qos, *self.accounts, *users]
        if any(getattr(row, "limits", ()) for row in rows) and not self.enforces_limits:
            want = "limits or safe among them: Slurm keeps no job to the limits of accounting.qos and accounts else"
            yield Violation("enforce", want=want)
        if any(getattr(row, "qos", ()) for row in (*self.accounts, *users)) and Enforcement.QOS not in self.enforce:
            want = "qos among them: Slurm keeps no job to the QOS of its account and user else"
            yield Violation("enforce", want=want)

    @rule
    def _keys_of_mode(self) -> Iterator[Violation]:
        for key in self.given - {"mode"}:
            modes = _MODES_OF_KEYS.get(key, ("external", "mariadb"))
            if self.mode not in modes:
                want = f"nothing: accounting.mode is {self.mode}, and this is for {' and '.join(modes)}"
                yield Violation(key, want=want)

    @rule
    def _external(self) -> Iterator[Violation]:
        if self.mode is not AccountingMode.EXTERNAL:
            return
        if self.external is None:
            want = "connection, or host with passwordSecret, for accounting.mode: external"
            yield Violation("external", want=want)
        elif "connection" in self.external.given:
            for key in self.external.given & {"host", "port", "user", "database", "passwordSecret"}:
                yield Violation("external", key, want="nothing: connection says it already")
        else:
            if self.external.host is None:
                want = "the server's name, or connection in place of the parts"
                yield Violation("external", "host", want=want)
            if self.external.password_secret is None:
                yield Violation("external", "passwordSecret", want="a Secret with the password, or connection")

    @property
    def is_on(self) -> bool:
        """Return whether anything is recorded."""
        return self.mode is not AccountingMode.OFF

    @property
    def enforces_limits(self) -> bool:
        """Return whether jobs are kept to limits; safe sets limits, too (AccountingStorageEnforce)."""
        return bool({Enforcement.LIMITS, Enforcement.SAFE} & set(self.enforce))

    @property
    def has_associations(self) -> bool:
        """Return whether every user who runs jobs has an association in accounting."""
        return any(enforcement.asks_for_associations for enforcement in self.enforce)

    @property
    def has_own_database(self) -> bool:
        """Return whether the program declares the database."""
        return self.mode is AccountingMode.MARIADB

    @property
    def password_secret(self) -> PasswordSecret | None:
        """The Secret that somebody else made for the password; None where the program makes one."""
        return self.external.password_secret if self.external else None
