"""`make check`: every linter of the project, all of them run, all failures shown at the end."""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from devcluster.machine.bootstrap import CHECKOUT, VENV, cache_folder, requirements_digest
from devcluster.machine.progress import say

CHECK_DEADLINE_SECONDS = 2400
"""Beside all tests (.ci/run) a check waits for the cores."""
AT_ONCE = 2
LONG = ("types", "C tidy")
"""Checks that begin first: each takes longer than all others together."""

PROSE = (
    "*.md",
    "components",
    "contract",
    "operator",
    "images",
    "native",
    "health",
    "devcluster",
    "bench",
    "tests",
    "__main__.py",
)
"""Files whose sentences are checked: docs, and the docstrings and comments of code and tests."""
_PROSE_SUFFIXES = (".md", ".py", ".c", ".h", ".sh")
C_SOURCES = (
    *("native/*.c", "native/*.h", "tests/native/*.c", "tests/native/*.h"),
    "devcluster/fakes/*.c",
    "devcluster/fakes/*.h",
)


def _tracked(*patterns: str) -> list[str]:
    """Return the files of the checkout that match, including those that git does not track yet."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate", "--", *patterns],
        cwd=CHECKOUT, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return [file for file in listed.stdout.splitlines() if (CHECKOUT / file).exists()]


def _shell_scripts() -> list[str]:
    executables = [
        file
        for file in _tracked(
            ".ci/*", "devcluster/fakes/*", "devcluster/vm/*", "images/*", "operator/*", "native/*", "health/*"
        )
        if _is_shell_script(CHECKOUT / file)
    ]
    return sorted({*_tracked("*.sh"), *executables})


def _prose() -> list[str]:
    return [file for file in _tracked(*PROSE) if Path(file).suffix in _PROSE_SUFFIXES]


def _is_shell_script(file: Path) -> bool:
    with file.open("rb") as content:
        return content.readline().startswith((b"#!/bin/sh", b"#!/usr/bin/env bash", b"#!/bin/bash"))


def _unless_passed(name: str, command: list[str]) -> list[str]:
    """Return a command that runs a check of C, unless it passed before, in whatever checkout, for the same inputs."""
    passed = cache_folder() / "passed" / f"{name}-{_inputs_of_c()}"
    passed.parent.mkdir(parents=True, exist_ok=True)
    return ["sh", "-c", 'test -e "$0" || { "$@" && touch "$0"; }', str(passed), *command]


def _inputs_of_c() -> str:
    """Return a hash of all C here, how it is checked, and the machine's packages, which have compiler and headers."""
    packages = subprocess.run(["dpkg-query", "-W"], capture_output=True, check=True, timeout=60).stdout
    told = {name: os.environ.get(name) for name in ("CC", "CFLAGS")}
    content = hashlib.sha256(packages + repr((requirements_digest(), told)).encode())
    for file in sorted(_tracked(*C_SOURCES, ".clang-tidy", "native/Makefile")):
        content.update(f"\0{file}\0".encode() + (CHECKOUT / file).read_bytes())
    return content.hexdigest()[:16]


def commands() -> dict[str, list[str]]:
    """Return each check's command line, by its name."""
    tools = VENV / "bin"
    types = cache_folder() / "mypy"
    types.mkdir(parents=True, exist_ok=True)
    return {
        "format": [str(tools / "ruff"), "format", "--check", "."],
        "lint": [str(tools / "ruff"), "check", "."],
        # A new checkout types what changed since another one; a lock has each see what the one before left.
        "types": ["flock", "--no-fork", str(types), str(tools / "mypy"), f"--cache-dir={types}", *TYPED],
        "layers": [str(tools / "lint-imports"), "--no-cache"],
        "C format": [str(tools / "clang-format"), "--dry-run", "--Werror", *_tracked(*C_SOURCES)],
        "C": _unless_passed("analyze", ["make", "-s", "-C", "native", "analyze"]),
        "C tidy": _unless_passed("tidy", ["make", "-s", "-C", "native", "tidy", f"CLANG_TIDY={tools / 'clang-tidy'}"]),
        "shell": ["shellcheck", *_shell_scripts()],
        "Containerfiles": [str(tools / "hadolint"), "--config", ".hadolint.yaml", *_tracked("*Containerfile")],
        "sentences": [str(tools / "python"), "-m", "devcluster.suite.sentences", *_prose()],
        # Its keys, and possible abuse: unpinned actions, too many rights, foreign text in a shell.
        "workflows": [str(tools / "zizmor"), "--offline", "--quiet", "--strict-collection", ".github/workflows"],
    }


TYPED = [
    "__main__.py", "components", "contract", "devcluster", "operator/slurm_operator", "images/slurm/slurm_node",
    "images/slurm/jail_commands", "images/database/slurm_database", "health/node_health", "health/published", "bench",
    ".ci/preview_comment.py", "docs/draw_jail.py", "tests/operator",
]  # fmt: skip


def run() -> int:
    """Run them all, two at a time; 0 only if each passed."""
    checks = commands()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = {name: pool.submit(_run, checks[name]) for name in sorted(checks, key=lambda name: name not in LONG)}
        failed = [name for name in checks if not _tell(name, results[name].result())]
    if failed:
        say(f"make check: failed: {', '.join(failed)}")
    return 1 if failed else 0


def _run(command: list[str]) -> tuple[int, str, float]:
    """Run a check; returned are its status, what it said, and its seconds."""
    # Import paths of packages with a folder of their own, as in their images.
    folders = [".", "operator", "images/slurm", "images/database", "health"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    started = time.monotonic()
    done = subprocess.run(
        command, cwd=CHECKOUT, env=environment, check=False, timeout=CHECK_DEADLINE_SECONDS, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return done.returncode, done.stdout, time.monotonic() - started


def _tell(name: str, result: tuple[int, str, float]) -> bool:
    status, said, seconds = result
    print(said, end="", flush=True)
    say(f"{'ok    ' if status == 0 else 'FAILED'} {name} ({seconds:.1f} s)")
    return status == 0
