"""slurmdbd.conf without its password, as text made from the configuration alone."""

from collections.abc import Mapping
from typing import Final

from components.config.accounting import Enforcement, Retention
from components.config.program import Config
from components.config.slurm import PrivateData
from components.config.slurm_keys.slurmdbd_conf import KEYS
from components.config.values.connection import DEFAULT_DATABASE, DEFAULT_USER, Connection
from contract import names, paths

_SHARED_WORDS: Final = ("enableipv6", "disableipv4")
"""Words of slurm.conf's CommunicationParameters, in lower case, that slurmdbd.conf has to have as well."""
_TRUE: Final = ("yes", "up", "true", "1")
"""Words that Slurm takes for yes (s_p_handle_boolean of parse_value.c)."""


def connection(config: Config) -> Connection:
    """Return the address of the database: the program's own, or the configured one."""
    external = config.accounting.external
    if external is not None:
        return external.parts
    return Connection(names.DATABASE, names.DATABASE_PORT, DEFAULT_USER, DEFAULT_DATABASE)


def storage_parameters(config: Config) -> Mapping[str, str]:
    """Return StorageParameters: the CA that must have signed the database's certificate.

    Without it, libmariadb accepts any certificate and verifies the server by the password.
    """
    external = config.accounting.external
    has_authority = config.database_tls or (external is not None and external.ca_secret is not None)
    return {"SSL_CA": f"{paths.SECRETS_DATABASE_AUTHORITY}/{names.TLS_AUTHORITY}"} if has_authority else {}


def _purges(retention: Retention) -> dict[str, str]:
    """Return when records go. Purged records are not archived."""
    ages = {f"retention.{name}": age for name, age in retention.model_dump(by_alias=True).items()}
    return {key: ages[name] for key, name in KEYS.typed.items() if ages[name] is not None}


def _private_data(config: Config) -> list[PrivateData]:
    """Return PrivateData: records of which sacct and sreport show a user only his own.

    slurmdbd does not read slurm.conf. It finds a user's jobs and usage by his associations. So a user without any would
    not see his own jobs.
    """
    by_association = () if config.accounting.has_associations else (PrivateData.JOBS, PrivateData.USAGE)
    return [kind for kind in config.slurm.private_data if kind not in by_association]


def _addresses(config: Config) -> list[str]:
    """Return the kinds of addresses that slurmdbd listens on: those of slurmctld."""
    words = config.slurm.slurm_conf_options.get("CommunicationParameters", "").split(",")
    return [word for word in words if word.lower() in _SHARED_WORDS]


def _tracks_wckeys(config: Config) -> bool:
    """Return whether slurmctld tracks WCKeys: slurmdbd has to as well, or sreport shows no usage of them."""
    option = config.slurm.slurm_conf_options.get("TrackWCKey", "")
    return Enforcement.WCKEYS in config.accounting.enforce or option.lower() in _TRUE


def slurmdbd_conf(config: Config) -> str:
    """Return slurmdbd.conf. The pod's entry adds how to get the password, which stands in no ConfigMap."""
    database = connection(config)
    parameters = ",".join(f"{key}={value}" for key, value in storage_parameters(config).items())
    private = _private_data(config)
    settings = {
        # slurmdbd requires its own host name here. Clients use the Service.
        "DbdHost": f"{names.ACCOUNTING}-0",
        "DbdAddr": names.ACCOUNTING,
        "DbdPort": str(names.SLURMDBD_PORT),
        "SlurmUser": "slurm",
        "AuthType": "auth/slurm",
        # Users exist in the jail alone: the client says who they are, and slurmdbd need not resolve them.
        "AuthInfo": "use_client_ids",
        # A token is valid only for the message that it was made for.
        "CommunicationParameters": ",".join(["block_null_hash", "block_zero_hash", *_addresses(config)]),
        "AuthAltTypes": "auth/jwt",
        "AuthAltParameters": f"jwt_key={paths.ACCOUNTING_RUN}/{names.JWT_KEY}",
        "PluginDir": paths.PLUGIN_DIR,
        "PidFile": f"{paths.ACCOUNTING_RUN}/slurmdbd.pid",
        "ArchiveDir": paths.ACCOUNTING_RUN,
        "DebugLevel": "info",
        "DebugLevelSyslog": "quiet",
        "StorageType": "accounting_storage/mysql",
        "StorageHost": database.host,
        "StoragePort": str(database.port),
        "StorageUser": database.user,
        "StorageLoc": database.database,
        **({"StorageParameters": parameters} if parameters else {}),
        **({"PrivateData": ",".join(private)} if private else {}),
        **({"TrackWCKey": "yes"} if _tracks_wckeys(config) else {}),
        # slurmctld's messages have the hash that slurm.conf says, and slurmdbd loads the plugin that its own file says.
        **({"HashPlugin": plugin} if (plugin := config.slurm.slurm_conf_options.get("HashPlugin")) else {}),
        **_purges(config.accounting.retention),
        **config.accounting.options,
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())
