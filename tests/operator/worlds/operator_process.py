"""Operators as processes that are forked from one which has imported them: an import takes half of an operator's start.

Only what an operator imports is imported here.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import sys
from collections.abc import Mapping
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from unittest import mock

from slurm_operator import __main__ as program
from slurm_operator import handlers
from slurm_operator.clients import access, pod_refusals
from slurm_operator.decide.cluster import requeue
from slurm_operator.decide.nodes import workers
from slurm_operator.reconcile import slurm_look
from slurm_operator.reconcile.health import hanging_jobs, long_checks

__all__ = ["ForkServerProcess", "start"]

REPOSITORY = Path(__file__).parents[3]
SERVICE_ACCOUNT = "TESTS_SERVICE_ACCOUNT"
"""Variable that names the folder with what a pod has of its service account."""
SHORTER = 5
"""The pauses of an operator with short ones are so much shorter. Their proportions stay."""
_PAUSES = (
    (handlers, "_LEAST_PAUSE_SECONDS"),
    (requeue, "PROGRESSING_SECONDS"),
    (requeue, "STEADY_SECONDS"),
    (slurm_look, "RECORDS_SECONDS"),
    (slurm_look, "WORDS_SECONDS"),
    (long_checks, "EVERY_SECONDS"),
    (hanging_jobs, "EVERY_SECONDS"),
    (workers, "K8S_NODE_PATIENCE"),
    (pod_refusals, "LACKING_SECONDS"),
    (pod_refusals, "ASKED_AGAIN_SECONDS"),
)
"""Between reconciles, and between looks of reconciles. Those of the lease and of calls stay as they are."""


@functools.cache
def _server() -> ForkServerContext:
    """Start the process that operators are forked from. It ends with this one."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload([__name__])
    with mock.patch.dict(os.environ, PYTHONPATH=f"{REPOSITORY}/operator:{REPOSITORY}"):
        forkserver.ensure_running()
    return server


def start(environment: Mapping[str, str], log: Path, *, has_short_pauses: bool) -> ForkServerProcess:
    """Start an operator with these variables alone; its output is added to `log`."""
    process = _server().Process(target=_run, args=(dict(environment), log, has_short_pauses), daemon=True)
    process.start()
    return process


def _run(environment: dict[str, str], log: Path, has_short_pauses: bool) -> None:
    for module, name in _PAUSES if has_short_pauses else ():
        setattr(module, name, getattr(module, name) / SHORTER)
    os.environ.clear()
    os.environ.update(environment)
    if folder := environment.get(SERVICE_ACCOUNT):
        access.SERVICE_ACCOUNT = Path(folder)
    with log.open("ab") as output:
        for descriptor in (1, 2):
            os.dup2(output.fileno(), descriptor)
    sys.exit(program.main())
