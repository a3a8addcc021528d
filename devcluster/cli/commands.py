"""The commands of the dev cluster, which run under the virtual environment's Python."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from devcluster.cli import check, preview, up
from devcluster.images import images
from devcluster.machine.bootstrap import CHECKOUT, cache_folder
from devcluster.machine.progress import StepFailed, say
from devcluster.node import containerd, node_cli, toolchain
from devcluster.node.instance import Instance, InvalidNameError, enter_command
from devcluster.release import make as releases
from devcluster.suite import gpu, gpu_bundle, testing
from devcluster.vm import guest, kernel
from devcluster.vm import tests as vm_tests

NOT_UP = 3


def run(options: argparse.Namespace) -> int:
    """Execute `options.command` and return the exit status."""
    try:
        return COMMANDS[options.command](options)
    except (images.ImageError, InvalidNameError) as error:
        raise StepFailed(str(error)) from error


def _instance(options: argparse.Namespace) -> Instance:
    return Instance.named(options.name) if options.name else up.default_instance()


def _words(options: argparse.Namespace) -> list[str]:
    """Return the words after `--`.

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
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and `command` would inherit that.
    os.execvpe(command[0], command, {**os.environ, **(environment or {})})  # noqa: S606 - no shell is wanted


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
    for instance in node_cli.instances() if options.all else [_instance(options)]:
        if up.is_on_own_cluster(instance):
            say("destroying the stack on your own cluster")
            up.existing(instance).stack.run("destroy", "--yes", "--skip-preview", "--non-interactive")
            shutil.rmtree(instance.state)
        elif options.keep:
            node_cli.stop(instance)
        else:
            node_cli.remove(instance)
    return 0


def _status(options: argparse.Namespace) -> int:
    instance = _instance(options)
    if not instance.exists():
        print(f"instance {instance.name}: not made yet; 'make up' makes it")
        return NOT_UP
    status = node_cli.status(instance)
    print(f"instance {instance.name}: {'running' if status.running else 'down'}, node {status.address}")
    for report in status.components:
        print(_component_line(report))
    stack = up.existing(instance).stack
    if stack.folder.exists():
        print(f"Pulumi's Kubernetes provider: {stack.provider()}")
    return 0 if status.running else NOT_UP


def _component_line(report: node_cli.ComponentReport) -> str:
    state = report.state
    if state.pid and state.since:
        line = f"  {state.name:24} pid {state.pid:<8} since {datetime.fromtimestamp(state.since).astimezone():%F %T}"
    else:
        line = f"  {state.name:24} DOWN"
    if state.restarts:
        line += f"  restarted {state.restarts} times, last: {state.last_exit}"
    if report.last_error:
        line += f"\n      last error: {report.last_error[:200]}"
    return line


def _list(_: argparse.Namespace) -> int:
    for instance in node_cli.instances():
        status = node_cli.status(instance)
        state = "running" if status.running else "down"
        print(f"{instance.name:24} {state:8} {status.address:16} {status.checkout}")
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
    """Write a `pulumi` that adds the instance's config file, so that the tracked one stays as it is.

    Returns:
        The folder to put on PATH.
    """
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
    return _become(enter_command(_instance(options), _words(options)))


def _logs(options: argparse.Namespace) -> int:
    logs = _instance(options).logs
    there = sorted(log.stem for log in logs.glob("*.log"))
    if not options.component:
        print("\n".join(there))
        return 0
    if options.component not in there:
        raise StepFailed(f"there is no log of {options.component!r}; there are {', '.join(there) or 'none yet'}")
    log = logs / f"{options.component}.log"
    return _become(["tail", "-n", "200", *(["-F"] if options.follow else []), str(log)])


def _load(options: argparse.Namespace) -> int:
    containerd.load_image(_instance(options), options.archive)
    return 0


def _toolchain(_: argparse.Namespace) -> int:
    print(toolchain.build())
    return 0


def _images(_: argparse.Namespace) -> int:
    for name, image in images.build_all(cache_folder()).items():
        print(f"{name}\t{image.reference}\t{image.archive}")
    return 0


def _push(options: argparse.Namespace) -> int:
    if not options.registry:
        raise StepFailed("say where to: make push REGISTRY=registry.example/team")
    for name, reference in images.push(options.registry, images.build_all(cache_folder())).items():
        print(f"{name}\t{reference}")
    return 0


def _release(options: argparse.Namespace) -> int:
    registry = (options.registry or "").rstrip("/") or None
    if options.dry_run:
        releases.dry_run(cache_folder(), registry)
    else:
        releases.tell(releases.release(cache_folder(), registry))
    return 0


def _preview(options: argparse.Namespace) -> int:
    preview.preview(options.file, options.out)
    return 0


def _test(options: argparse.Namespace) -> int:
    return testing.run(options.paths)


def _test_vm(options: argparse.Namespace) -> int:
    return testing.run_on_v2(options.paths, options.junit)


def _test_gpu(options: argparse.Namespace) -> int:
    if options.bundle:
        gpu_bundle.write(options.bundle)
        return 0
    if not gpu.has_gpu():  # All tests are skipped, so no image is built.
        return gpu.run(options.record, options.junit)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        gpu_bundle.make(Path(folder))
        return gpu.run(options.record, options.junit, made=Path(folder))


def _guest(options: argparse.Namespace) -> int:
    testing.clean_up_when_killed()
    kernel.build()
    with guest.shared_folder() as folder:
        return guest.run(
            _words(options), folder, directory=Path.cwd(), environment=vm_tests.environment(),
            seconds=options.seconds, size=guest.Size(memory_mib=options.memory),
        )  # fmt: skip


def _check(_: argparse.Namespace) -> int:
    return check.run()


def _bench(options: argparse.Namespace) -> int:
    command = [sys.executable, "-m", "bench", *options.names]
    return subprocess.run(command, cwd=CHECKOUT, env=bench_environment(), check=False).returncode


def bench_environment() -> dict[str, str]:
    """Return the process's environment with the import paths of the measured parts, as tests have them."""
    settings = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    folders = settings["tool"]["pytest"]["ini_options"]["pythonpath"]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(str(CHECKOUT / folder) for folder in folders)}


def _clean_cache(_: argparse.Namespace) -> int:
    shutil.rmtree(cache_folder(), ignore_errors=True)
    return 0


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "up": _up, "down": _down, "status": _status, "list": _list, "env": _env, "kubeconfig": _kubeconfig, "ssh": _ssh,
    "run": _run, "cp": _cp, "kubectl": _kubectl, "pulumi": _pulumi, "enter": _enter, "logs": _logs, "load": _load,
    "toolchain": _toolchain, "images": _images, "push": _push, "test": _test, "check": _check, "bench": _bench,
    "clean-cache": _clean_cache, "preview": _preview, "test-vm": _test_vm, "test-gpu": _test_gpu, "guest": _guest,
    "release": _release,
}  # fmt: skip
