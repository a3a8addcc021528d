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

__all__ = ["ForkServerProcess", "start"]

REPOSITORY = Path(__file__).parents[2]


@functools.cache
def _server() -> ForkServerContext:
    """Start the process that operators are forked from. It ends with this one."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload([__name__])
    with mock.patch.dict(os.environ, PYTHONPATH=f"{REPOSITORY}/operator:{REPOSITORY}"):
        forkserver.ensure_running()
    return server


def start(environment: Mapping[str, str], log: Path) -> ForkServerProcess:
    """Start an operator with these variables alone; its output is added to `log`."""
    process = _server().Process(target=_run, args=(dict(environment), log), daemon=True)
    process.start()
    return process


def _run(environment: dict[str, str], log: Path) -> None:
    os.environ.clear()
    os.environ.update(environment)
    with log.open("ab") as output:
        for descriptor in (1, 2):
            os.dup2(output.fileno(), descriptor)
    sys.exit(program.main())
