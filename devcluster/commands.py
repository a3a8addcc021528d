"""What each command of the dev cluster does, under the virtual environment's Python."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from devcluster import check, images, node_cli, testing, toolchain, up
from devcluster.bootstrap import CHECKOUT
from devcluster.instance import Instance, default_instance
from devcluster.progress import StepFailed, say

NOT_UP = 3


def run(options: argparse.Namespace) -> int:
    """Carry out `options.command` and return the exit status."""
    return COMMANDS[options.command](options)


def _instance(options: argparse.Namespace) -> Instance:
    return Instance(options.name) if options.name else default_instance()


def _words(options: argparse.Namespace) -> list[str]:
    """What stands after `--`.

    Raises:
        StepFailed: When nothing does.
    """
    words = list(options.arguments)
    if words[:1] == ["--"]:
        words = words[1:]
    if not words:
        raise StepFailed(f"say what to run: python3 -m devcluster {options.command} -- COMMAND")
    return words


def _become(command: list[str], environment: dict[str, str] | None = None) -> int:
    """Replace this process by `command`, so that signals, the terminal and the exit status are its own."""
    os.execvpe(command[0], command, {**os.environ, **(environment or {})})  # noqa: S606


def _up(options: argparse.Namespace) -> int:
    instance = _instance(options)
    if options.kubeconfig:
        up.up_on_own_cluster(instance, options.kubeconfig, options.registry or "")
    elif options.node_only:
        up.start_node(instance)
    else:
        up.up(instance)
    return 0


def _down(options: argparse.Namespace) -> int:
    if options.all:
        node_cli.stop_all()
        return 0
    instance = _instance(options)
    if (instance.state / "own-cluster").exists():
        say("destroying the stack on your own cluster")
        up.existing(instance).stack.run("destroy", "--yes", "--skip-preview", "--non-interactive")
    node_cli.stop(instance)
    return 0


def _status(options: argparse.Namespace) -> int:
    instance = _instance(options)
    is_up = node_cli.status(instance)
    if up.stack_folder(instance).exists() and is_up:
        print(f"Pulumi's Kubernetes provider: {up.existing(instance).stack.provider()}")
    return 0 if is_up else NOT_UP


def _list(_: argparse.Namespace) -> int:
    node_cli.print_list()
    return 0


def _env(options: argparse.Namespace) -> int:
    cluster = up.existing(_instance(options))
    shims = _write_shims(cluster)
    variables = cluster.stack.variables()
    variables["PATH"] = os.pathsep.join([str(shims), variables["PATH"]])
    variables.pop("PYTHONPATH")
    for name, value in variables.items():
        print(f"export {name}={shlex.quote(value)}")
    return 0


def _write_shims(cluster: up.Cluster) -> Path:
    """A `pulumi` that adds the instance's config file, so that the tracked one stays as it is."""
    shims = cluster.instance.state / "shims"
    shims.mkdir(exist_ok=True)
    shim = shims / "pulumi"
    name = shlex.quote(cluster.instance.name)
    checkout = shlex.quote(str(CHECKOUT))
    shim.write_text(f'#!/bin/sh\ncd {checkout} && exec python3 -m devcluster --name {name} pulumi -- "$@"\n')
    shim.chmod(0o755)
    return shims


def _kubeconfig(options: argparse.Namespace) -> int:
    print(up.existing(_instance(options)).kubeconfig)
    return 0


def _ssh(options: argparse.Namespace) -> int:
    return _become(up.existing(_instance(options)).login.ssh_command())


def _run(options: argparse.Namespace) -> int:
    return _become(up.existing(_instance(options)).login.run_command(_words(options)))


def _cp(options: argparse.Namespace) -> int:
    return _become(up.existing(_instance(options)).login.copy_command(options.source, options.target))


def _kubectl(options: argparse.Namespace) -> int:
    cluster = up.existing(_instance(options))
    command = [str(cluster.binaries / "kubectl"), *_words(options)]
    return _become(command, {"KUBECONFIG": str(cluster.kubeconfig)})


def _pulumi(options: argparse.Namespace) -> int:
    stack = up.existing(_instance(options)).stack
    os.chdir(CHECKOUT)
    return _become([str(stack.binaries / "pulumi"), *stack.arguments(_words(options))], stack.variables())


def _enter(options: argparse.Namespace) -> int:
    return _become(node_cli.enter_command(_instance(options), _words(options)))


def _logs(options: argparse.Namespace) -> int:
    instance = _instance(options)
    if not options.component:
        print("\n".join(node_cli.components(instance)))
        return 0
    log = node_cli.log_file(instance, options.component)
    return _become(["tail", "-n", "200", *(["-F"] if options.follow else []), str(log)])


def _load(options: argparse.Namespace) -> int:
    node_cli.load_image(_instance(options), options.archive)
    return 0


def _toolchain(_: argparse.Namespace) -> int:
    print(toolchain.build())
    return 0


def _images(_: argparse.Namespace) -> int:
    for name, image in images.build_all(toolchain.cache_folder()).items():
        print(f"{name}\t{image.reference}\t{image.archive}")
    return 0


def _push(options: argparse.Namespace) -> int:
    if not options.registry:
        raise StepFailed("say where to: make push REGISTRY=registry.example/team")
    for name, reference in images.push(images.build_all(toolchain.cache_folder()), options.registry).items():
        print(f"{name}\t{reference}")
    return 0


def _test(options: argparse.Namespace) -> int:
    return testing.run(options.paths)


def _check(_: argparse.Namespace) -> int:
    return check.run()


def _bench(options: argparse.Namespace) -> int:
    command = [sys.executable, "-m", "bench", *options.names]
    return subprocess.run(command, cwd=CHECKOUT, check=False).returncode


def _clean_cache(_: argparse.Namespace) -> int:
    shutil.rmtree(toolchain.cache_folder(), ignore_errors=True)
    return 0


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "up": _up, "down": _down, "status": _status, "list": _list, "env": _env, "kubeconfig": _kubeconfig, "ssh": _ssh,
    "run": _run, "cp": _cp, "kubectl": _kubectl, "pulumi": _pulumi, "enter": _enter, "logs": _logs, "load": _load,
    "toolchain": _toolchain, "images": _images, "push": _push, "test": _test, "check": _check, "bench": _bench,
    "clean-cache": _clean_cache,
}  # fmt: skip
