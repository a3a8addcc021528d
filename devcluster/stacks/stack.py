"""A stack of this checkout, the dev one unless named: its Pulumi backend, its copy of the config, its environment."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from devcluster import standin
from devcluster.machine import go_programs
from devcluster.machine.bootstrap import CHECKOUT, VENV, cache_folder
from devcluster.machine.progress import StepFailed, say

STACK = "dev"
PROGRAMS = "PULUMI_SLURM_PROGRAMS"
"""Variable that names a folder of programs which the engine finds before all others; tests set it."""
PROJECT = "pulumi-slurm"
PLUGIN_DEADLINE_SECONDS = 60
"""Deadlines to list plugins on a busy machine, and to download one of 60 MB."""
MOST_WORDS = 50_000
"""The reason stands before the program's own tracebacks, one for each resource that waited for the one that failed."""
ENGINE_DEADLINE_SECONDS = 3600
COMMANDS_WITH_CONFIG_FILE = frozenset(
    {"up", "update", "preview", "pre", "refresh", "destroy", "import", "config", "watch"}
)


def _is_engine(pid: int) -> bool:
    """Return whether a process is Pulumi's: on a busy machine, another one soon has a dead process's number."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "pulumi"
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class Stack:
    """Paths and programs of an instance's stack.

    Args:
        folder: Where everything about it is kept, inside the instance's state folder.
        binaries: Folder with the Pulumi CLI and its Python language host.
        kubeconfig: Kubernetes that the stack is for.
        name: Name of the stack.
        tracked: The stack's file in the checkout; None for Pulumi.<name>.yaml.
    """

    folder: Path
    binaries: Path
    kubeconfig: Path
    name: str = STACK
    tracked: Path | None = None

    @property
    def config_file(self) -> Path:
        """The instance's own copy of the tracked Pulumi.<name>.yaml, which is never written."""
        return self.folder / "project" / f"Pulumi.{self.name}.yaml"

    def environment(self) -> dict[str, str]:
        """Return the environment in which Pulumi's engine runs for this stack."""
        return {**os.environ, **go_programs.ENVIRONMENT, **self.variables()}

    def variables(self) -> dict[str, str]:
        """Return the variables that environment() adds to the process's own."""
        path = [str(VENV / "bin"), str(self.binaries), os.environ.get("PATH", "")]
        if self.uses_stand_in():
            path.insert(0, str(standin.FOLDER))
        elif self._named_plugin.exists():
            path.insert(0, str(self._named_plugin.parent))
        if programs := os.environ.get(PROGRAMS):
            path.insert(0, programs)
        return {
            "PATH": os.pathsep.join(path),
            "KUBECONFIG": str(self.kubeconfig),
            "PULUMI_HOME": str(cache_folder() / "pulumi-home"),
            "PULUMI_BACKEND_URL": f"file://{self.folder / 'backend'}",
            "PULUMI_CONFIG_PASSPHRASE_FILE": str(self.folder / "passphrase"),
            "PULUMI_STACK": self.name,
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            # The Python of .venv is used as it is: the language host built here knows no `virtualenv` option.
            "PYTHONPATH": str(CHECKOUT),
        }

    def uses_stand_in(self) -> bool:
        """Return whether the stand-in provider replaces the official plugin (decided once, by _choose_provider)."""
        return self._recorded_provider() == "stand-in"

    def provider(self) -> str:
        """Return the name of the Kubernetes provider in use, for `status`."""
        if self.uses_stand_in():
            return f"the stand-in of this checkout (in place of the official {standin.VERSION})"
        recorded = self._recorded_provider()
        return f"the official {standin.VERSION}" if recorded == "official" else recorded

    def _recorded_provider(self) -> str:
        record = self.folder / "provider"
        return record.read_text() if record.exists() else "stand-in"

    @property
    def _named_plugin(self) -> Path:
        """The plugin that PULUMI_KUBERNETES_PLUGIN named, under the name by which the engine finds it on PATH."""
        return self.folder / "plugin" / "pulumi-resource-kubernetes"

    def prepare(self) -> None:
        """Make the backend, the passphrase (mode 600) and the stack, each only if missing.

        Raises:
            StepFailed: PULUMI_KUBERNETES_PLUGIN names no Kubernetes plugin.
        """
        for folder in (self.folder, self.folder / "backend", self.folder / "project", cache_folder() / "pulumi-home"):
            folder.mkdir(parents=True, exist_ok=True)
        passphrase = self.folder / "passphrase"
        if not passphrase.exists():
            passphrase.touch(mode=0o600)
            passphrase.write_text(secrets.token_hex(24))
        # `stack init` writes its salt beside a project file: here, never into the tracked Pulumi.dev.yaml.
        (self.folder / "project" / "Pulumi.yaml").write_text(f"name: {PROJECT}\nruntime: python\n")
        self._choose_provider()
        listed = self.run("stack", "ls", "--json", capture=True)
        if not any(stack["name"].split("/")[-1] == self.name for stack in json.loads(listed or "[]")):
            self.run("-C", str(self.folder / "project"), "stack", "init", self.name, capture=True)

    def _choose_provider(self) -> None:
        record = self.folder / "provider"
        if os.environ.get(standin.VARIABLE):
            record.write_text(self._link_named_plugin())
            return
        if record.exists():
            return
        if not self._official_is_installed():
            # A download that hangs counts as failed, which the code below checks.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._plugin("install", "resource", "kubernetes", standin.VERSION)
        record.write_text("official" if self._official_is_installed() else "stand-in")
        if self.uses_stand_in():
            say("  Pulumi's official Kubernetes plugin is not here and cannot be downloaded: using the stand-in")

    def _link_named_plugin(self) -> str:
        # Imported here, since it loads gRPC and Pulumi, which would slow each `devcluster ssh` down.
        from devcluster.stacks import kubernetes_plugin

        try:
            plugin = kubernetes_plugin.chosen(os.environ)
        except kubernetes_plugin.NoPlugin as reason:
            raise StepFailed(str(reason)) from None
        say(f"  Pulumi's Kubernetes plugin: {plugin}")
        self._named_plugin.parent.mkdir(exist_ok=True)
        self._named_plugin.unlink(missing_ok=True)
        self._named_plugin.symlink_to(plugin.file)
        return str(plugin)

    def _official_is_installed(self) -> bool:
        plugins: list[dict[str, Any]] = json.loads(self._plugin("ls", "--json") or "[]")
        wanted = ("kubernetes", "resource", standin.VERSION)
        return any((p.get("name"), p.get("kind"), str(p.get("version")).lstrip("v")) == wanted for p in plugins)

    def _plugin(self, *arguments: str) -> str:
        # Without the stand-in's folder on PATH, where the engine would take it for an installed plugin.
        path = os.pathsep.join([str(self.binaries), os.environ.get("PATH", "")])
        return subprocess.run(
            [str(self.binaries / "pulumi"), "plugin", *arguments], env={**self.environment(), "PATH": path},
            capture_output=True, text=True, timeout=PLUGIN_DEADLINE_SECONDS, check=False,
        ).stdout  # fmt: skip

    def write_config(self, facts: Mapping[str, Any]) -> None:
        """Bring the instance's config up to date: the tracked file, edits made since by hand, then `facts`.

        Edits of the instance's copy stay until the tracked file itself changes, which it prints.
        """
        tracked = self.tracked or CHECKOUT / f"Pulumi.{self.name}.yaml"
        base = self.folder / "tracked-config"
        content = tracked.read_text()
        current: dict[str, Any] = yaml.safe_load(self.config_file.read_text()) if self.config_file.exists() else {}
        if not base.exists() or base.read_text() != content:
            if base.exists():
                say(f"  {tracked.name} changed: the instance's config starts from it again")
            salt = {key: value for key, value in current.items() if key != "config"}
            current = {**yaml.safe_load(content), **salt}
            base.write_text(content)
        current["config"] = _merged(
            current.get("config", {}), {f"{PROJECT}:{key}": value for key, value in facts.items()}
        )
        building = self.config_file.with_suffix(".new")
        building.write_text(yaml.safe_dump(current, sort_keys=False))
        building.rename(self.config_file)

    def clear_dead_lock(self) -> None:
        """Cancel a lock that a killed engine left, only if its process on this host is dead.

        Raises:
            StepFailed: When another live process (or another host) holds the lock.
        """
        for file in (self.folder / "backend").glob(f".pulumi/locks/**/{self.name}/*.json"):
            try:
                lock = json.loads(file.read_text())
            except (OSError, ValueError):
                continue  # gone or half written: the engine itself will say so
            pid = int(lock.get("pid", 0))
            if lock.get("hostname") == socket.gethostname() and not _is_engine(pid):
                say(f"  an earlier Pulumi (pid {pid}) was killed and left a lock: cancelling it")
                self.run("cancel", "--yes", self.name, capture=True)
            else:
                raise StepFailed(
                    f"Pulumi already runs on this stack (pid {pid} on {lock.get('hostname')}): wait for it"
                )

    def arguments(self, arguments: Sequence[str]) -> list[str]:
        """Return `arguments` of a pulumi command line with this instance's config file where the command takes one."""
        command = next((word for word in arguments if not word.startswith("-")), "")
        if command not in COMMANDS_WITH_CONFIG_FILE or any(word.startswith("--config-file") for word in arguments):
            return list(arguments)
        position = list(arguments).index(command) + 1
        return [*arguments[:position], "--config-file", str(self.config_file), *arguments[position:]]

    def run(self, *arguments: str, capture: bool = False, deadline_seconds: float = ENGINE_DEADLINE_SECONDS) -> str:
        """Run the engine in the checkout and return its standard output if captured.

        Raises:
            StepFailed: With the engine's own last lines, when it fails.
        """
        command = [str(self.binaries / "pulumi"), *self.arguments(arguments)]
        done = subprocess.run(
            command, cwd=CHECKOUT, env=self.environment(), timeout=deadline_seconds, check=False, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if capture else None,
            stderr=subprocess.PIPE if capture else None,
        )  # fmt: skip
        if done.returncode != 0:
            words = f":\n{(done.stdout + done.stderr).strip()[-MOST_WORDS:]}" if capture else ""
            raise StepFailed(f"pulumi {' '.join(arguments[:3])} failed{words}")
        return done.stdout or ""

    def outputs(self) -> dict[str, Any]:
        """Return the stack's outputs; secrets are left out."""
        shown: dict[str, Any] = json.loads(self.run("stack", "output", "--json", capture=True))
        return shown

    def forget(self) -> None:
        """Delete all files of the stack."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with the mappings of `over` merged into it, key by key."""
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = _merged(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return merged
