"""Command line of the dev cluster. Standard library only, until it runs in the virtual environment."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from devcluster.machine import bootstrap
from devcluster.machine.lock import locked
from devcluster.machine.progress import reported_failures
from devcluster.suite import gpu

EXAMPLES = """examples:
  python3 -m devcluster up                         start everything, run one real job
  python3 -m devcluster run -- sinfo               run a command on a login node, as the ordinary user, over SSH
  python3 -m devcluster ssh                        log in
  python3 -m devcluster kubectl -- get pods -A     look at the Kubernetes below
  python3 -m devcluster pulumi -- preview          Pulumi on this instance's stack
  eval "$(python3 -m devcluster env)"              the same in your own shell: pulumi, kubectl
  python3 -m devcluster logs -f kubelet            follow a component's log
  python3 -m devcluster guest -- uname -r          a command on a kernel with cgroup v2 and NFS
  python3 -m devcluster down                       end it and remove what it left
"""

# Commands that set up what is missing before they start; the others only use what is there.
SETS_UP = frozenset(
    {
        "up",
        "test",
        "check",
        "bench",
        "images",
        "push",
        "toolchain",
        "preview",
        "test-vm",
        "test-gpu",
        "guest",
        "release",
    }
)
# They do what they can with the packages that are there.
WITHOUT_ROOT = frozenset({"check", "preview", "test-gpu"})
NEEDS_ROOT = frozenset(
    {"up", "down", "test", "bench", "images", "push", "load", "enter", "test-vm", "guest", "release"}
)


Command = Callable[[str, str], argparse.ArgumentParser]
"""Makes a command of a name and a meaning."""


def parser() -> argparse.ArgumentParser:
    """Return the command line's grammar."""
    top = argparse.ArgumentParser(
        prog="python3 -m devcluster",
        description="A real single-node Kubernetes with the dev stack on it, from package registries alone.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--name", help="instance (default: this checkout's own)")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, meaning: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=meaning, description=f"{meaning[0].upper()}{meaning[1:]}.")

    _of_an_instance(command)
    _of_the_checkout(command)
    return top


def _of_an_instance(command: Command) -> None:
    """Add the commands for an instance and what runs in it."""
    up = command("up", "toolchain, images, Kubernetes, `pulumi up`, one job; what is there is kept")
    up.add_argument("--kubeconfig", type=Path, metavar="FILE", help="use your own cluster in place of the embedded one")
    up.add_argument("--registry", help="with --kubeconfig: where your cluster pulls images from")
    up.add_argument("--node-only", action="store_true", help="stop when Kubernetes is ready")

    down = command("down", "end an instance and remove what it left, its data too")
    down.add_argument("--all", action="store_true", help="every instance on this machine, other checkouts' too")
    down.add_argument("--keep", action="store_true", help="keep its state: the next up continues with its data")

    command("status", "what runs, since when, and what crashed (status 3: it is not up)")
    command("list", "the instances on this machine")
    command("env", "shell lines for eval: KUBECONFIG, Pulumi's variables, PATH")
    command("kubeconfig", "path of the instance's kubeconfig")
    command("ssh", "log in to a login node as the ordinary user")

    logs = command("logs", "log of a component (without a name: which there are)")
    logs.add_argument("-f", "--follow", action="store_true", help="go on printing")
    logs.add_argument("component", nargs="?", help="such as kubelet")

    for name, meaning in {
        "run": "run a command on a login node over SSH; its exit status is this one's",
        "kubectl": "kubectl against the instance",
        "pulumi": "Pulumi on the instance's stack and config file",
        "enter": "run a command inside the instance's namespaces",
    }.items():
        passed_on = command(name, meaning)
        passed_on.add_argument("arguments", nargs=argparse.REMAINDER, metavar="-- ARGUMENTS")

    load = command("load", "import an image archive into the instance")
    load.add_argument("archive", type=Path, help="a tar file, as docker or OCI tools write it")
    copy = command("cp", "copy files to or from a login node; a path there starts with ':'")
    copy.add_argument("source", help="such as train.py here, or :train.py in the home on the login node")
    copy.add_argument("target", help="the same")


def _of_the_checkout(command: Command) -> None:
    """Add the commands for what is built, tested and released."""
    command("toolchain", "build the programs and print their folder")
    command("images", "build all images and print their references")
    push = command("push", "copy all images to a registry")
    push.add_argument("registry", nargs="?", help="such as registry.example/team")
    release = command("release", "images by digest, SBOMs, sources and notes in build/release/")
    release.add_argument("registry", nargs="?", help="push the images there, such as registry.example/team")
    release.add_argument("--dry-run", action="store_true", help="say what would be made and what stands against it")
    preview = command("preview", "preview a stack file by Pulumi's engine, without any Kubernetes")
    preview.add_argument(
        "file", type=Path, nargs="?", default=Path("Pulumi.gpu.example.yaml"), help="default: %(default)s"
    )
    preview.add_argument("--out", type=Path, metavar="FILE", help="write Pulumi's JSON there")
    test = command("test", "all tests, on an instance of their own")
    test.add_argument("paths", nargs="*", metavar="PATH", help="only these (default: all)")
    on_v2 = command("test-vm", "the tests that need cgroup v2 and NFS, in a guest if need be")
    on_v2.add_argument(
        "paths", nargs="*", metavar="PATH", help="only these (default: tests/vm without tests/vm/kubelet, over an hour)"
    )
    on_v2.add_argument("--junit", type=Path, metavar="FILE", help="write pytest's JUnit report there")
    on_gpu = command("test-gpu", "what a GPU machine shows without Kubernetes; says what it skipped")
    on_gpu.add_argument("--record", type=Path, metavar="DIR", help="write the driver's answers there, as test data")
    on_gpu.add_argument("--junit", type=Path, metavar="FILE", help="write pytest's JUnit report there")
    packed = on_gpu.add_mutually_exclusive_group()
    packed.add_argument("--bundle", type=Path, metavar="FILE", help="run nothing: write what a GPU machine needs")
    packed.add_argument("--from", type=Path, metavar="FILE", dest="packed", help="use what --bundle wrote")
    guest = command("guest", "run a command as root in a User-Mode Linux guest of this machine")
    guest.add_argument("--memory", type=int, default=4096, metavar="MIB", help="memory of the guest (default: 4096)")
    guest.add_argument("--seconds", type=int, default=3600, help="when it ends at the latest (default: 3600)")
    guest.add_argument("arguments", nargs=argparse.REMAINDER, metavar="-- ARGUMENTS")
    command("check", "format, lint, types, import layers, shell, C, Containerfiles, sentences, workflows")
    bench = command("bench", "the measurements, as ratios")
    bench.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="print these alone (default: all but the longest, as a new table in docs/benchmarks.md)",
    )
    command("clean-cache", "drop the cached toolchain, images and Pulumi plugins")


def main(arguments: list[str]) -> int:
    """Run one command and return its exit status."""
    with reported_failures():
        options = parser().parse_args(arguments)
        if options.command == "test-gpu" and options.packed:  # By this Python: a GPU machine may have no network.
            return gpu.run_bundle(options.packed, options.record, options.junit)
        if options.command in NEEDS_ROOT:
            bootstrap.require_root()
        if options.command in SETS_UP:
            with locked(
                bootstrap.cache_folder() / "set-up.lock", "waits for another command that sets this machine up"
            ):
                if options.command not in WITHOUT_ROOT or bootstrap.is_root():
                    bootstrap.install_os_packages()
                bootstrap.make_venv()
        elif not bootstrap.venv_is_ready():
            bootstrap.explain_missing_venv()
            return 3
        bootstrap.continue_in_venv(arguments)
        status: int = import_module("devcluster.cli.commands").run(options)
        return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
