"""From a bare Debian machine to this project's virtual environment. Standard library only."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from devcluster.machine.progress import Step, StepFailed, say

CHECKOUT = Path(__file__).resolve().parents[2]
VENV = CHECKOUT / ".venv"
REQUIREMENTS = CHECKOUT / "requirements.txt"
INSTALL_DEADLINE_SECONDS = 900

# Each package with its purpose. Nothing else of the operating system is used.
OS_PACKAGES = {
    "containerd": "runs the pods",
    "runc": "runs the pods",
    "containernetworking-plugins": "bridge, host-local and portmap network plugins",
    "iptables": "kube-proxy",
    "conntrack": "kube-proxy",
    "nftables": "network policies in the pods' network namespaces",
    "iproute2": "the instance's network",
    "util-linux": "namespaces of an instance",
    "socat": "kubectl port-forward",
    "buildah": "builds the images",
    "skopeo": "pushes the images to a registry; the tests of slurm-image pull with it",
    "mmdebstrap": "root file systems of the images, where no registry can be reached",
    "debian-archive-keyring": "signatures of those root file systems",
    "uidmap": "user namespaces of image builds",
    "openssh-client": "the way into a login node",
    "gcc": "the C tests",
    "libc6-dev": "the C tests",
    "make": "the C tests",
    "flex": "the kernel of make test-vm",
    "bison": "the kernel of make test-vm",
    "bc": "the kernel of make test-vm",
    "patch": "the kernel of make test-vm",
    "xz-utils": "the kernel of make test-vm",
    "e2fsprogs": "the disk of make test-vm",
    "libslurm-dev": "make check: headers for the plugin; the images have their own",
    "libpam0g-dev": "make check: headers for the PAM module",
    "shellcheck": "make check",
}


def cache_folder() -> Path:
    """Return the folder of builds that checkouts share: $PULUMI_SLURM_CACHE, else ~/.cache/pulumi-slurm."""
    if configured := os.environ.get("PULUMI_SLURM_CACHE"):
        return Path(configured)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "pulumi-slurm"


def is_root() -> bool:
    """Return whether this process may install OS packages and make namespaces and mounts."""
    return os.geteuid() == 0


def require_root() -> None:
    """Stop with one sentence unless root: namespaces, mounts and packages need it.

    Raises:
        StepFailed: When the effective user is not root.
    """
    if not is_root():
        raise StepFailed("the dev cluster needs root (namespaces, mounts, OS packages): run it with sudo")


def missing_os_packages() -> list[str]:
    """Return the names out of OS_PACKAGES that dpkg does not list as installed.

    Raises:
        StepFailed: When the machine has no dpkg: this bootstrap knows Debian only.
    """
    if shutil.which("dpkg-query") is None:
        raise StepFailed(f"this machine has no dpkg; on Debian 12 these would be installed: {' '.join(OS_PACKAGES)}")
    asked = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *OS_PACKAGES],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    installed = {line.split()[0] for line in asked.stdout.splitlines() if line.endswith(" installed")}
    return [name for name in OS_PACKAGES if name not in installed]


def install_os_packages() -> None:
    """Install the missing OS_PACKAGES, and print them first."""
    missing = missing_os_packages()
    if not missing:
        return
    with Step(f"OS packages: installing {' '.join(missing)}"):
        log = cache_folder() / "log" / "apt.log"
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        run_logged(["apt-get", "update"], log, environment=environment)
        run_logged(
            ["apt-get", "install", "-y", "--no-install-recommends", *missing], log, environment=environment, append=True
        )


def run_logged(
    command: list[str],
    log: Path,
    *,
    environment: dict[str, str] | None = None,
    folder: Path | None = None,
    append: bool = False,
    deadline_seconds: float = INSTALL_DEADLINE_SECONDS,
) -> None:
    """Run `command` with its output in `log`.

    Raises:
        StepFailed: When it ends with another status than 0, or not before the deadline; names the log.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab" if append else "wb") as output:
        output.write(f"$ {' '.join(command)}\n".encode())
        output.flush()
        try:
            status = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                env=environment, cwd=folder, timeout=deadline_seconds, check=False,
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            raise StepFailed(f"{command[0]} did not end within {deadline_seconds:.0f} s", log) from None
    if status != 0:
        raise StepFailed(f"{' '.join(command[:3])} ended with status {status}", log)


def requirements_digest() -> str:
    """Return a hash of requirements.txt and the Python version: the virtual environment's inputs."""
    return hashlib.sha256(REQUIREMENTS.read_bytes() + repr(sys.version_info[:2]).encode()).hexdigest()


def venv_is_ready() -> bool:
    """Return whether .venv holds exactly what requirements.txt names."""
    stamp = VENV / ".requirements"
    return stamp.exists() and stamp.read_text() == requirements_digest()


def make_venv() -> None:
    """Make .venv from requirements.txt (pinned, with hashes), again when that file or Python changed."""
    if venv_is_ready():
        return
    with Step("Python packages into .venv"):
        python = VENV / "bin" / "python"
        shutil.rmtree(VENV, ignore_errors=True)
        try:
            venv.create(VENV, with_pip=True)
        except subprocess.CalledProcessError as error:
            raise StepFailed("python3 cannot make a virtual environment: apt-get install python3-venv") from error
        run_logged(
            [str(python), "-m", "pip", "install", "--no-compile", "--require-hashes", "-r", str(REQUIREMENTS)],
            cache_folder() / "log" / "pip.log",
        )
        # pip would compile on one core. A file for another Python fails here as there, which harms nobody.
        everything = [str(python), "-m", "compileall", "-qq", "-j", "0", str(VENV / "lib")]
        subprocess.run(everything, timeout=INSTALL_DEADLINE_SECONDS, check=False)
        (VENV / ".requirements").write_text(requirements_digest())


def running_in_venv() -> bool:
    """Return whether this process already runs the virtual environment's Python."""
    return Path(sys.prefix).resolve() == VENV.resolve()


def continue_in_venv(arguments: list[str], module: str = "devcluster") -> None:
    """Replace this process by the same command under the virtual environment's Python. Returns if it runs there."""
    if running_in_venv():
        return
    python = VENV / "bin" / "python"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH")])),
    }
    os.execve(python, [str(python), "-m", module, *arguments], environment)  # noqa: S606 - no shell is wanted


def explain_missing_venv() -> None:
    """Say, for commands that only look, why they can do nothing yet."""
    say("this checkout is not set up, or was set up for other requirements: run 'make up' first")
