"""Keys of slurm.conf that a user may set through slurm.options, and the values that they accept.

Each key of slurm.conf is in one of three lists: this program's own, refused with a reason, or allowed
(slurm_conf_keys.txt).
"""

import difflib
import re
from collections.abc import Mapping
from importlib import resources
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator

from components.config.slurm_keys import parameter_words, plugin_names, propagated_limits, select_parameters
from components.config.slurm_keys.line_keys import LineKeys
from components.config.slurm_keys.retired import RETIRED
from components.config.values.validation import wrong
from contract.slurm_conf import WORKER_START

_LIST_KEYS: Final = (
    "SlurmctldParameters",
    "SchedulerParameters",
    "LaunchParameters",
    "SlurmdParameters",
    "PrologFlags",
    "TaskPlugin",
    "PropagateResourceLimitsExcept",
    "AccountingStorageTRES",
    "CommunicationParameters",
    "JobSubmitPlugins",
    "CliFilterPlugins",
)
LIST_KEYS: Final = frozenset(key.lower() for key in _LIST_KEYS)
"""Comma-separated lists. A user's items are added to them, since ours must stay."""

_OWNED_FOR: Final = {
    "it comes from cluster.name": ("ClusterName",),
    "it comes from the fixed names of the objects": ("SlurmctldHost", "SlurmctldAddr", "MaxNodeCount", "TreeWidth"),
    "Services and network policies depend on it": ("SlurmctldPort", "SlurmdPort", "SrunPortRange"),
    "the images and pods depend on it": (
        "SlurmUser",
        "SlurmdUser",
        "PluginDir",
        "StateSaveLocation",
        "SlurmdSpoolDir",
        "SlurmctldPidFile",
        "SlurmdPidFile",
        "ReturnToService",
    ),
    "daemons log to the pod's log": (
        "SlurmctldLogFile",
        "SlurmdLogFile",
        "SlurmctldSyslogDebug",
        "SlurmdSyslogDebug",
        "SlurmSchedLogFile",
        "SlurmSchedLogLevel",  # slurmctld ends with one and without SlurmSchedLogFile.
    ),
    "keys come from credentials": (
        "AuthType",
        "AuthInfo",
        "AuthAltTypes",
        "AuthAltParameters",
        "CredType",
        "SlurmctldHttpAuthParameters",
        "SlurmdHttpAuthParameters",
    ),
    "another value would run jobs outside the jail": ("PlugStackConfig", "NamespaceType"),
    "slurmstepd would open files for root's jobs with root's rights; srun sudo runs a program as root": (
        "DisableRootJobs",
    ),
    "memory limits of jobs depend on it; see slurm.cgroupPlugin": (
        "SelectType",
        "ProctrackType",
    ),
    "it comes from nodeSets[].gpus and gres": ("GresTypes",),
    "it comes from accounting": (
        "AccountingStorageType",
        "AccountingStorageHost",
        "AccountingStorageBackupHost",
        "AccountingStorageExternalHost",
        "AccountingStoragePort",
        "AccountingStoragePass",
        "AccountingStorageEnforce",
    ),
    "slurm.scripts has yours, which run beside ours": (
        "Prolog",
        "Epilog",
        "PrologSlurmctld",
        "EpilogSlurmctld",
        "HealthCheckProgram",
    ),
    "it would run a program in the pod's root, outside the jail": (
        "ResvProlog",
        "ResvEpilog",
        "UnkillableStepProgram",
        "SlurmctldPrimaryOnProg",
        "SlurmctldPrimaryOffProg",
    ),
    "nodes are pods, started and removed by the operator": (
        "RebootProgram",
        "ResumeProgram",
        "ResumeFailProgram",
        "SuspendProgram",
        "SuspendTime",
    ),
    "it comes from nodeSets and partitions": ("NodeName", "NodeSet", "PartitionName", "FrontendName"),
    "it would read a file that is not declared": ("Include",),
    "it comes from health": ("HealthCheckInterval", "HealthCheckNodeState", "HealthCheckTimeout"),
    "the operator and dashboards read these metrics": ("MetricsType", "MetricsParameters", "MetricsAuthUsers"),
    "it comes from slurm.privateData": ("PrivateData",),
    "the image of the controller has no program that sends mail": ("MailProg", "MailDomain"),
}
OWNED: Final = {key.lower(): reason for reason, keys in _OWNED_FOR.items() for key in keys}

_REFUSED_FOR: Final = {
    "nodes register themselves, so slurm.conf names none; drain one with scontrol update": ("DownNodes",),
    "slurmstepd would load PAM modules of the users' root with all its rights": ("UsePAM",),
    "it would take the place of the prolog that keeps jobs from a node without its jail": (
        "PrEpPlugins",
        "PrEpParameters",
    ),
    "it runs programs on nodes, outside of the jail, and reboots nodes": ("NodeFeaturesPlugins",),
    "it runs programs in the pod of slurmctld, from a file that this program does not write": (
        "BurstBufferType",
        "BurstBufferParameters",
        "PowerAction",
    ),
    "slurmstepd would write as root where users write, as a file says that this program does not write": (
        "AcctGatherProfileType",
    ),
    "everybody on the cluster can read slurm.conf": ("JobCompPass",),
    "slurmctld would run it in its own pod": ("JobCompPassScript",),
    "slurmstepd would run the users' xauth": ("X11Parameters",),
    "it does nothing here: it is for nodes that Slurm itself powers down": (
        "ResumeRate",
        "SuspendExcNodes",
        "SuspendExcParts",
        "SuspendExcStates",
        "SuspendRate",
        "SuspendTimeout",
    ),
    "it does nothing here: partitions and reservations admit no Unix groups": ("GroupUpdateForce",),
    "it does nothing here: a cluster is in no federation": ("FederationParameters",),
    "it does nothing here: /sys is read-only in a pod, so Slurm sets no frequency of CPUs": (
        "CpuFreqDef",
        "CpuFreqGovernors",
    ),
    "it does nothing here: srun --bcast is refused, and sbcast of the jail has no such settings": (
        "BcastExclude",
        "BcastParameters",
    ),
    "it does nothing here: SwitchType has no other word than switch/none": ("SwitchParameters",),
    "it does nothing here: it is for plugins of JobCompType that are refused": (
        "JobCompHost",
        "JobCompLoc",
        "JobCompParams",
        "JobCompPort",
        "JobCompUser",
    ),
    # http_switch_init: slurmctld goes on, and answers /readyz no more. slurmrestd ends.
    "Slurm finds the one that the image has; with another, slurmctld's pod would never be ready": (
        "HttpParserType",
        "UrlParserType",
    ),
    "Debian's Slurm is built without tls/s2n, and their scripts would run outside of the jail": (
        "TLSType",
        "TLSParameters",
        "CertgenType",
        "CertgenParameters",
        "CertmgrType",
        "CertmgrParameters",
    ),
}
REFUSED: Final = {key.lower(): reason for reason, keys in _REFUSED_FOR.items() for key in keys}
"""Key in lower case → why nobody may set it: it would undo the jail, or only do harm here."""

_NOT: Final = {
    "CommunicationParameters": {
        "disable_http": "Kubernetes asks slurmctld by HTTP whether it is ready, and Prometheus for metrics",
    },
    "LaunchParameters": {
        # slurmctld refuses to start with both. With ours, nodes look up a heterogeneous job's user.
        "enable_nss_slurm": "this program sets disable_send_gids, its opposite",
        "ulimit_pam_adopt": "slurmstepd would load PAM modules of the users' root with all its rights",
    },
    "PrologFlags": {
        "nohold": "this program sets Contain, beside which slurmctld does not start with it",
        "x11": "slurmstepd would run the users' xauth outside of the job",
        "runinjob": "the prolog runs in slurmd, before slurmstepd enters the users' root",
    },
    "ReconfigFlags": {
        # load_all_part_state in partition_mgr.c.
        "keeppartinfo": "slurmctld would take no edit of partitions, and bring removed ones back",
    },
    "SchedulerParameters": {
        # Backfill's thread reads it, which starts after the config dry run has seen that slurmctld is up.
        "max_job_bf": "bf_max_job_test is its name since, and slurmctld ends with the old one",
    },
    "SlurmctldParameters": {
        "allow_user_triggers": "slurmctld would run users' programs in its own pod",
        "enable_stepmgr": "slurmstepd would hold slurm.key on the job's node, and answer users",
    },
    "TaskPluginParam": {
        # _spec_override in slurmd.c, tag slurm-26-05-3-1: an unsigned difference.
        "slurmdspecoverride": "slurmd would take the pod's memory from RealMemory, which is less: the node had none",
    },
    "TopologyParam": dict.fromkeys(
        ("routepart", "routetree"),
        "slurmd passes no message on to other nodes: it would do so for whoever reaches its port",
    ),
    "SlurmdParameters": {
        "contain_spank": "the jail's SPANK plugin enters a job's namespaces itself",
        "conmgr_quiesce_timeout": "a slurmd that takes a new configuration would end its service under jobs that end",
    },
}
NOT: Final = {key.lower(): words for key, words in _NOT.items()}
"""Key in lower case → words of its value that are refused, and why."""

_WORD: Final = r"[^\s#\"'\\\x00-\x1f\x7f]+"
_VALUE: Final = re.compile(_WORD)
_WORDS: Final = re.compile(f"{_WORD}( {_WORD})*")
_OF_WORDS: Final = ("interactivestepoptions",)
"""Keys in lower case whose value has spaces: options of srun."""
_ONE_VALUE: Final = "one value without spaces, quotes, `#`, backslashes or newlines"
_OR_WORDS: Final = f"{_ONE_VALUE}; InteractiveStepOptions may have single spaces"


def _allowed() -> dict[str, str]:
    text = resources.files("components.config.slurm_keys").joinpath("slurm_conf_keys.txt").read_text("utf-8")
    return {line.lower(): line for line in text.splitlines() if line and not line.startswith("#")}


ALLOWED: Final = _allowed()
"""Keys of slurm.conf that a user may set, by their lower-case form: Slurm ignores case."""

KEYS: Final = LineKeys(
    of="slurm.conf",
    at="slurm",
    typed={},
    owned={key: reason for reason, keys in _OWNED_FOR.items() for key in keys},
    refused={key: reason for reason, keys in _REFUSED_FOR.items() for key in keys},
    allowed=tuple(ALLOWED.values()),
)
"""The same lists, with each key as Slurm writes it."""


def check_option_name(name: str) -> str:
    """The key as it was written.

    Raises:
        PydanticCustomError: Slurm has no such key, the cluster sets it by itself, or it would undo the jail.
    """
    if reason := OWNED.get(name.lower()):
        raise wrong(f"another key: {name} is set by this program, {reason}")
    if reason := REFUSED.get(name.lower()):
        raise wrong(f"no {name}: {reason}")
    if successor := RETIRED.get(name.lower()):
        raise wrong(f"no {name}: Slurm 26.05 does not have it any more; {successor}")
    if name.lower() not in ALLOWED:
        close = difflib.get_close_matches(name.lower(), ALLOWED, n=1)
        hint = f"; did you mean {ALLOWED[close[0]]}?" if close else ""
        raise wrong(f"a key of slurm.conf that Slurm 26.05 knows{hint}")
    return name


def slurms_name(name: str) -> str:
    """A key that may be set, as Slurm writes it."""
    return ALLOWED[name.lower()]


def refusal(name: str, value: str) -> str:
    """Sentence about the values that a key accepts; empty if this value is allowed."""
    key = name.lower()
    if key == "selecttypeparameters":
        return select_parameters.refusal(value)
    if " " in value and key not in _OF_WORDS:
        return _ONE_VALUE
    reasons = [propagated_limits.refusal(key, value)]
    # Slurm takes most of them from the middle of a longer word, too.
    unfit = {word: reason for word, reason in NOT.get(key, {}).items() if word in value.lower()}
    reasons += [f"{name} without {word}: {reason}" for word, reason in unfit.items()]
    reasons += parameter_words.refusals(name, value)
    reasons.append(plugin_names.refusal(name, value))
    return "; ".join(filter(None, reasons))


def written(value: str) -> str:
    """Return a value as it stands in slurm.conf: in quotes if it has spaces."""
    return f'"{value}"' if " " in value else value


def worker_start(options: Mapping[str, str]) -> list[str]:
    """The words of options that take effect on a worker only with a new pod."""
    given = {key.lower(): value.lower().split(",") for key, value in options.items()}
    return sorted({word for key, taken in WORKER_START.items() for word in given.get(key, ()) if word in taken})


def check_option_value(value: str) -> str:
    """The value, if it is safe in one `Key=value` line.

    Slurm reads several Key=value pairs from one line. It takes `#` for a comment and a backslash for a continued line.
    So a value may hold none of these.

    Raises:
        PydanticCustomError: It holds a space, quote, `#`, backslash, newline or other control character.
    """
    if not _VALUE.fullmatch(value):
        raise wrong(_ONE_VALUE)
    return value


def check_option_words(value: str) -> str:
    """The value, if it is safe in one `Key="value"` line. `refusal` says which keys take one with spaces.

    Raises:
        PydanticCustomError: It holds a quote, `#`, backslash, newline or other control character.
    """
    if not _WORDS.fullmatch(value):
        raise wrong(_OR_WORDS if " " in value else _ONE_VALUE)
    return value


def quoted_text(value: Any) -> Any:
    """Return the text of a value; YAML reads an unquoted YES, NO or OFF as true or false, which Slurm would not take.

    Raises:
        PydanticCustomError: The value is true or false.
    """
    if isinstance(value, bool):
        raise wrong('text in quotes, such as "YES" or "NO"')
    return str(value) if isinstance(value, int | float) else value


OptionValue = Annotated[str, BeforeValidator(quoted_text), AfterValidator(check_option_value)]
OptionWords = Annotated[str, BeforeValidator(quoted_text), AfterValidator(check_option_words)]
