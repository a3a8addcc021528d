"""The site's scripts: the ConfigMaps by which they reach pods and jobs, and the keys of slurm.conf that start them.

Checks that are switched off, and the site's thresholds, reach nodes by the same ConfigMap: that takes no new pod.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from components.config import Config
from components.config.nodes.health import HEALTH_SECONDS, PROLOG_SECONDS
from components.config.scripts import Scripts
from components.kubernetes.manifest import Manifest, declared
from contract import names, paths
from contract.site_scripts import Kind, Script, file_of, list_text

PLACES: Final = {
    names.NODE_SCRIPTS: (Kind.PROLOG, Kind.EPILOG, Kind.HEALTH_CHECK),
    names.TASK_SCRIPTS: (Kind.TASK_PROLOG, Kind.TASK_EPILOG),
    names.CONTROLLER_SCRIPTS: (Kind.PROLOG_SLURMCTLD, Kind.EPILOG_SLURMCTLD),
}
"""ConfigMap → the kinds of scripts in it. Jobs see one of them alone."""
_STARTED_BY: Final = {
    Kind.PROLOG_SLURMCTLD: ("PrologSlurmctld", paths.PROLOG_SLURMCTLD),
    Kind.EPILOG_SLURMCTLD: ("EpilogSlurmctld", paths.EPILOG_SLURMCTLD),
    Kind.TASK_PROLOG: ("TaskProlog", paths.TASK_PROLOG),
    Kind.TASK_EPILOG: ("TaskEpilog", paths.TASK_EPILOG),
}
"""Kind → key of slurm.conf and program. Other kinds are started by our own prolog, epilog and health program."""
_BATCH_START_SECONDS: Final = 10
"""Slurm's default of BatchStartTimeout (slurm.conf(5)), which longer prologs need to be longer."""


def data(scripts: Scripts, kinds: Sequence[Kind]) -> dict[str, str]:
    """Return the files of a ConfigMap: for each kind that has scripts, the list of their names, and the scripts."""
    files: dict[str, str] = {}
    for kind in kinds:
        if of_kind := scripts.by_kind[kind]:
            files[kind.value] = list_text([Script(script.name, script.seconds) for script in of_kind])
            files |= {file_of(kind, script.name): script.content for script in of_kind}
    return files


def manifests(config: Config) -> list[Manifest]:
    """Return the ConfigMaps of nodes, tasks and slurmctld that have scripts, disabled checks or thresholds."""
    places = {name: data(config.slurm.scripts, kinds) for name, kinds in PLACES.items()}
    if disabled := config.health.checks.disabled:
        places[names.NODE_SCRIPTS][Path(paths.DISABLED_CHECKS).name] = "".join(f"{check}\n" for check in disabled)
    if own := {one.product: one.numbers for one in config.health.thresholds}:
        places[names.NODE_SCRIPTS][Path(paths.SITE_THRESHOLDS).name] = f"{json.dumps(own, sort_keys=True)}\n"
    return [
        Manifest(declared(config, "v1", "ConfigMap", name, "configuration", {"data": files}))
        for name, files in places.items()
        if files
    ]


def volume(name: str, config_map: str) -> dict[str, Any]:
    """Return the volume of a ConfigMap. Pods always have it, so that the first script takes no new pod."""
    return {"name": name, "configMap": {"name": config_map, "optional": True, "defaultMode": 0o555}}


def settings(config: Config) -> dict[str, str]:
    """Return the keys of slurm.conf for these scripts."""
    scripts = config.slurm.scripts
    keys = {key: program for kind, (key, program) in _STARTED_BY.items() if scripts.by_kind[kind]}
    if seconds := scripts.seconds(Kind.PROLOG):
        keys["BatchStartTimeout"] = str(_BATCH_START_SECONDS + seconds)
    # Slurm has one limit for the prologs of nodes and of slurmctld.
    if seconds := max(scripts.seconds(Kind.PROLOG), scripts.seconds(Kind.PROLOG_SLURMCTLD)):
        keys["PrologTimeout"] = str(PROLOG_SECONDS + seconds)
    if seconds := scripts.seconds(Kind.HEALTH_CHECK):
        keys["HealthCheckTimeout"] = str(HEALTH_SECONDS + seconds)
    return keys
