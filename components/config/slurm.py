"""Configuration of Slurm itself."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator

from components.config import topologies
from components.config.model import Model, setting
from components.config.pods.pod_options import POD_OPTIONS, PlacedPodOptions
from components.config.pods.resources import ControllerResources, RestResources
from components.config.rule import Violation, named_twice, rule
from components.config.scripts import Scripts
from components.config.slurm_keys import cgroup_conf, defaults, plugin_names
from components.config.slurm_keys.slurm_options import (
    OptionWords,
    check_option_name,
    refusal,
    slurms_name,
)
from components.config.storage import StateStorage
from components.config.topologies import Topology
from components.config.values import slurm_files
from components.config.values.slurm_files import FileName, FileText
from components.config.values.validation import matching
from contract.site_scripts import Kind

_PYXIS, _PYXIS_EPILOG = "spank_pyxis.so", "container_scope=job"
"""Its epilog fails outside of the jail, and Slurm drains the node for that (Pyxis 0.24, pyxis_slurmd.c)."""

_NO_PREEMPTION = "preempt/none"
_PREEMPTING = {"CANCEL", "REQUEUE", "SUSPEND"}
"""Words of PreemptMode without one of which Slurm preempts nothing, and refuses a PreemptType."""
_ONE_OF_TWO = (
    ("DefMemPerCPU", "DefMemPerGPU"),
    ("DefMemPerCPU", "DefMemPerNode"),
    ("DefMemPerGPU", "DefMemPerNode"),
    ("MaxMemPerCPU", "MaxMemPerNode"),
    ("PropagateResourceLimits", "PropagateResourceLimitsExcept"),
)
"""Keys of slurm.conf of which Slurm ignores one."""
_ONLY_WITH = {
    "MCSParameters": ("MCSPlugin", "mcs/"),
    "PreemptExemptTime": ("PreemptType", "preempt/"),
    "PreemptParameters": ("PreemptType", "preempt/"),
}
"""Key of slurm.conf → the key, and the beginning of its value, without which Slurm ignores it."""
_TASK_SCRIPTS = {"taskprolog": Kind.TASK_PROLOG, "taskepilog": Kind.TASK_EPILOG}
"""Key of slurm.conf in lower case → the scripts for which this program sets it."""
_TIMED_SCRIPTS = {
    "prologepilogtimeout": (Kind.PROLOG, Kind.EPILOG, Kind.PROLOG_SLURMCTLD, Kind.EPILOG_SLURMCTLD),
    "prologtimeout": (Kind.PROLOG, Kind.PROLOG_SLURMCTLD),
    "epilogtimeout": (Kind.EPILOG, Kind.EPILOG_SLURMCTLD),
}
"""Key of slurm.conf in lower case → the scripts that Slurm ends after that time."""


class CgroupPlugin(StrEnum):
    """Plugin that enforces a job's memory limit; the values are those of cgroup.conf."""

    AUTODETECT = "autodetect"
    V1 = "cgroup/v1"
    V2 = "cgroup/v2"
    DISABLED = "disabled"


class MpiPlugin(StrEnum):
    """A plugin that `srun --mpi=` takes."""

    PMI2 = "pmi2"


class PrivateData(StrEnum):
    """Records of which a user sees only his own; the values are those of PrivateData (slurm.conf, slurmdbd.conf)."""

    ACCOUNTS = "accounts"
    EVENTS = "events"
    JOBS = "jobs"
    NODES = "nodes"
    PARTITIONS = "partitions"
    RESERVATIONS = "reservations"
    USAGE = "usage"
    USERS = "users"


PluginFile = Annotated[
    str,
    matching(r"(?!spank_jail\.so$)[A-Za-z0-9][A-Za-z0-9._-]*\.so", "a file's name such as spank_pyxis.so, no path"),
]
PluginArgument = Annotated[
    str, matching(r"[A-Za-z0-9_./:=,@%+-]+", "one word such as runtime_path=/run/user, without quotes or `#`")
]
OptionName = Annotated[str, AfterValidator(check_option_name)]


class SpankPlugin(Model):
    """A SPANK plugin of yours, such as Pyxis; it runs after the jail's, with the jail as its root."""

    file: PluginFile = setting("Its file, which the slurm image must have: see images/slurm/plugins.")
    arguments: list[PluginArgument] = setting("What it is told in plugstack.conf.", factory=list)
    required: bool = setting("Whether a step fails when the plugin does; else it runs without.", default=True)

    @rule
    def _pyxis(self) -> Iterator[Violation]:
        for index, argument in enumerate(self.arguments):
            if self.file == _PYXIS and argument == _PYXIS_EPILOG:
                want = "container_scope=global: else Pyxis has slurmd run enroot at a job's end, where there is none"
                yield Violation("arguments", index, want=want)


class Slurm(Model):
    """Slurm's own settings."""

    options: dict[OptionName, OptionWords] = setting(
        "Further lines of slurm.conf, key to value. Lists such as SchedulerParameters extend ours; -bf_continue takes "
        "out a value that docs/slurm-keys.md lists as chosen.",
        factory=dict,
    )
    files: dict[FileName, FileText] = setting(
        "Further files of Slurm, name to text, or to {path: FILE} with a path of the project: job_submit.lua, "
        "cli_filter.lua, topology.yaml …",
        factory=dict,
    )
    topologies: list[Topology] = setting(
        "Topologies of the network, from which topology.yaml is written; see docs/topology.md. Left out: flat.",
        factory=list,
    )
    scripts: Scripts = setting("Scripts of the site that Slurm starts; see docs/scripts.md.", factory=Scripts)
    cgroup_plugin: CgroupPlugin = setting(
        "What enforces memory limits of jobs; disabled runs jobs without limits.", default=CgroupPlugin.AUTODETECT
    )
    constrain_cores: bool = setting(
        "Whether a job's processes keep to its cores. Only for a worker with all CPUs of its Kubernetes node: Slurm "
        "gives out the node's first ones. The health check `cpu pinning` tells where these are not the pod's own.",
        default=False,
    )
    cgroup_options: dict[cgroup_conf.OptionName, cgroup_conf.OptionValue] = setting(
        "Further lines of cgroup.conf, key to value, such as ConstrainSwapSpace.", factory=dict
    )
    mpi_plugins: list[MpiPlugin] = setting(
        "What srun --mpi= offers besides none. pmi2 has root's slurmstepd read messages of tasks without checks: for "
        "clusters whose users may become root on the nodes.",
        factory=list,
    )
    private_data: list[PrivateData] = setting(
        "Records of which users see only their own; operators and administrators see all. Accounting keeps jobs and "
        "usage private only where accounting.enforce asks for associations. With an empty list every user sees all "
        "jobs, with their names and command lines.",
        factory=lambda: [PrivateData.JOBS, PrivateData.USAGE],
    )
    spank_plugins: list[SpankPlugin] = setting("More SPANK plugins, in their order.", factory=list)

    @property
    def slurm_conf_options(self) -> dict[str, str]:
        """The options by their keys as Slurm writes them."""
        return {slurms_name(name): plugin_names.slurms_value(name, value) for name, value in self.options.items()}

    @rule
    def _cores(self) -> Iterator[Violation]:
        if self.constrain_cores and self.cgroup_plugin is CgroupPlugin.DISABLED:
            want = "false with slurm.cgroupPlugin: disabled, since cgroups keep jobs to their cores"
            yield Violation("constrainCores", want=want)

    @rule
    def _cgroup_options(self) -> Iterator[Violation]:
        for name, value in self.cgroup_options.items():
            if self.cgroup_plugin is CgroupPlugin.DISABLED:
                want = "nothing with slurm.cgroupPlugin: disabled, since Slurm uses no cgroups then"
                yield Violation("cgroupOptions", name, want=want)
            elif want := cgroup_conf.refusal(name, value):
                yield Violation("cgroupOptions", name, want=want)
        if "AllowedSwapSpace" in self.cgroup_options and self.cgroup_options.get("ConstrainSwapSpace", "no") == "no":
            want = 'nothing, or ConstrainSwapSpace: "yes" beside it: without that Slurm ignores it'
            yield Violation("cgroupOptions", "AllowedSwapSpace", want=want)

    @rule
    def _options(self) -> Iterator[Violation]:
        first: dict[str, str] = {}
        for name, value in self.options.items():
            other = first.setdefault(name.lower(), name)
            if other != name:
                yield Violation("options", name, want=f"one of {other} and {name}: Slurm reads one key")
            loaders = {
                word: slurm_files.loader(name, word.lower())
                for word in plugin_names.slurms_value(name, value).split(",")
            }
            words = [word for word, file in loaders.items() if not file]
            for word, file in loaders.items():
                if file and word != word.lower():
                    want = f"{word.lower()} in place of {word}: the case of a plugin's name counts"
                    yield Violation("options", name, want=want)
                elif file and file not in self.files:
                    yield Violation("options", name, want=f"slurm.files with {file} too, which {value} runs")
            for want in (defaults.removal_refusal(name, value), refusal(name, ",".join(words))) if words else ():
                if want:
                    yield Violation("options", name, want=want)

    @rule
    def _one_of_two(self) -> Iterator[Violation]:
        given = {slurms_name(name): name for name in self.options}
        for first, second in _ONE_OF_TWO:
            if first in given and second in given:
                yield Violation("options", given[second], want=f"nothing beside {first}: Slurm takes one of them")

    @rule
    def _only_with(self) -> Iterator[Violation]:
        given = {slurms_name(name): (name, value.lower()) for name, value in self.options.items()}
        for key, (other, value) in _ONLY_WITH.items():
            beside = given.get(other, ("", ""))[1]
            if key in given and (not beside.startswith(value) or beside.endswith("/none")):
                want = f"nothing, or {other}: {value}{'…' if value.endswith('/') else ''} beside it: Slurm ignores it"
                yield Violation("options", given[key][0], want=want)

    @rule
    def _cgroups(self) -> Iterator[Violation]:
        given = {name.lower(): name for name in self.options}
        without = self.cgroup_plugin is CgroupPlugin.DISABLED
        # Slurm takes `none` in a list for no plugin at all.
        if (name := given.get("taskplugin")) and "none" in self.options[name].lower() and not without:
            want = "task/affinity, or slurm.cgroupPlugin: disabled: jobs have no limit of memory without task/cgroup"
            yield Violation("options", name, want=want)
        if (name := given.get("taskplugin")) and "cgroup" in self.options[name].lower() and without:
            want = "task/affinity, or another slurm.cgroupPlugin than disabled: no slurmd would start"
            yield Violation("options", name, want=want)
        if (
            (name := given.get("jobacctgatherparams"))
            and "overmemorykill" in self.options[name].lower().split(",")
            and not without
        ):
            want = "other words, or slurm.cgroupPlugin: disabled: cgroups limit memory, and slurmctld would not start"
            yield Violation("options", name, want=want)
        if (name := given.get("jobacctgathertype")) and "cgroup" in self.options[name].lower() and without:
            want = "jobacct_gather/linux beside slurm.cgroupPlugin: disabled: no slurmd would start"
            yield Violation("options", name, want=want)

    @rule
    def _preemption(self) -> Iterator[Violation]:
        by, mode = (self.slurm_conf_options.get(key, "") for key in ("PreemptType", "PreemptMode"))
        words, preempts = {*mode.upper().split(",")}, by.lower() not in ("", _NO_PREEMPTION)
        if preempts and words.isdisjoint(_PREEMPTING):
            want = f"CANCEL, REQUEUE or SUSPEND,GANG beside PreemptType: {by}: slurmctld would not start"
            yield Violation("options", "PreemptMode", want=want)
        elif not preempts and not words.isdisjoint(_PREEMPTING):
            want = "nothing, or PreemptType: preempt/partition_prio or preempt/qos: slurmctld would not start"
            yield Violation("options", "PreemptMode", want=want)
        elif "SUSPEND" in words and "GANG" not in words:
            want = "SUSPEND,GANG: slurmctld would not start without GANG"
            yield Violation("options", "PreemptMode", want=want)

    @rule
    def _files(self) -> Iterator[Violation]:
        for name, want in slurm_files.problems(self.files, self.options):
            yield Violation("files", name, want=want)

    @rule
    def _topologies(self) -> Iterator[Violation]:
        yield from topologies.problems(self.topologies)

    @rule
    def _scripts(self) -> Iterator[Violation]:
        given = {name.lower(): name for name in self.options}
        for key, kind in _TASK_SCRIPTS.items():
            if self.scripts.by_kind.get(kind) and (name := given.get(key)):
                want = f"nothing beside slurm.scripts.{kind}: Slurm starts one program, and a script may start another"
                yield Violation("options", name, want=want)
        for key, kinds in _TIMED_SCRIPTS.items():
            kind = max(kinds, key=self.scripts.seconds)
            longest, name = self.scripts.seconds(kind), given.get(key, "")
            value = self.options.get(name, "")
            if longest and value.isdigit() and int(value) <= longest:
                want = f"more than {longest}: the scripts of slurm.scripts.{kind} may take so many seconds together"
                yield Violation("options", name, want=want)

    @rule
    def _plugins(self) -> Iterator[Violation]:
        yield from named_twice(self.spank_plugins, "spankPlugins", "file")


class Controller(Model):
    """The pod of slurmctld."""

    state_storage: StateStorage = setting("The volume of the job queue.", factory=StateStorage)
    resources: ControllerResources = setting("What the pod asks for.", factory=ControllerResources)
    pod: PlacedPodOptions = setting(POD_OPTIONS, factory=PlacedPodOptions)


class Rest(Model):
    """The pod of slurmrestd."""

    resources: RestResources = setting("What the pod asks for.", factory=RestResources)
    pod: PlacedPodOptions = setting(POD_OPTIONS, factory=PlacedPodOptions)
    tls: bool | None = setting(
        "Whether it is reached by HTTPS alone, through a proxy in its pod. Default: when there are certificates.",
        default=None,
    )
