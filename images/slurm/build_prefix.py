"""Makes the self-contained Slurm prefix, in the build stage of the slurm image.

Debian's binaries and plugins, every library they load and their own dynamic loader go to one folder. One read-only bind
then brings Slurm into any root, whatever that root holds. After slurmstepd has entered the users' root, it loads no
code from it.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

PREFIX = Path("/opt/slurm")
PLUGINS = PREFIX / "lib" / "slurm-wlm"
ASIDE = {"mpi_pmi2.so": PREFIX / "lib" / "slurm-pmi2"}
"""Plugins that Slurm loads only where the configuration names their folder (docs/adr/0022)."""
NAMED_BY_USERS = "mpi_"
"""Plugins that slurmstepd loads, as root, because a user names one (`srun --mpi`). The image leaves others out."""
LIBRARIES = PREFIX / "lib"
STEPD = PREFIX / "sbin" / "slurmstepd"
GUARD = "stepd_guard.so"
"""Library that slurmstepd is made to need, so that it starts no step without it (native/stepd/stepd_guard.c)."""
MESSAGE_GUARD = "message_guard.so"
"""Library of daemons that take messages: they check the sender before they read one (native/doors/message_guard.c)."""
LISTENERS = {
    *(PREFIX / "sbin" / name for name in ("slurmd", "slurmctld", "slurmdbd")),
    *(PREFIX / "bin" / name for name in ("srun", "salloc", "sattach", "swait")),
}
ROOT_GUARD = "root_guard.so"
"""Library of Slurm's commands. It tells root of the jail whom Slurm obeys (native/commands/root_guard.c)."""
NSS = "libnss_jail.so.2"
"""NSS module with the jail's users, for daemons and sshd (native/login/nss_jail.c)."""
OURS = ("spank_jail.so", "job_submit_jail.so", "mpi_openmpi.so")
"""Plugins of native/, installed beside Slurm's."""
DAEMONS = ("slurmctld", "slurmd", "slurmdbd", "slurmrestd", "sackd", "slurmstepd")
LEAST_VERSION = "26.05.5"
"""The first Slurm whose slurmdbd runs no SQL that a user's own client hides in ids and names (docs/doors.md)."""
LOADED_BY_NAME = ("libgcc_s.so.1",)
"""Libraries that glibc opens at run time, so that no binary names them."""
LOADER_FILES = {b"/etc/ld.so.cache\0": b"/opt/slurm/cache\0", b"/etc/ld.so.preload\0": b"/opt/slurm/preload\0"}
"""The loader's two lists → names of equal length in the prefix. Users own the lists once their root is entered."""


def main(staging: Path, native: Path, more: Path) -> None:
    """Fills ``staging`` with the files to copy over the final image's root.

    Args:
        staging: an empty folder that stands for the image's root.
        native: where ``make -C native`` left its results.
        more: further SPANK plugins, from whoever builds the image.
    """
    version = output("dpkg-query", "-W", "-f", "${Version}", "slurmd")
    refuse_an_old(version)
    triplet = output("gcc", "-print-multiarch")
    system_libraries = Path("/usr/lib") / triplet
    compiled_in_plugins = system_libraries / "slurm-wlm"
    programs = {PREFIX / "bin" / path.name: path for path in client_programs()}
    del programs[PREFIX / "bin" / "sbcast"]  # ours is in its place
    programs |= {PREFIX / "sbin" / name: Path("/usr/sbin") / name for name in DAEMONS}
    plugins = {target_of(path.name): path for path in compiled_in_plugins.glob("*.so*") if is_wanted(path.name)}
    plugins |= {PLUGINS / name: native / name for name in OURS}
    for file in sorted(more.glob("*.so")):
        if PLUGINS / file.name in plugins:
            sys.exit(f"images/slurm/plugins/{file.name}: Slurm has a plugin of this name")
        plugins[PLUGINS / file.name] = file
    loaded_by_name = [find_library(name, (system_libraries, Path("/usr/lib"))) for name in LOADED_BY_NAME]
    closure = libraries_of([*programs.values(), *plugins.values(), *loaded_by_name]) - set(plugins.values())
    interpreter = Path(output("patchelf", "--print-interpreter", "/usr/sbin/slurmd"))
    loader = LIBRARIES / interpreter.name
    libraries = {LIBRARIES / path.name: path for path in [*closure, *loaded_by_name] if path.name != interpreter.name}
    for name in (GUARD, MESSAGE_GUARD, ROOT_GUARD, NSS):
        libraries[LIBRARIES / name] = native / name

    for target, source in (programs | plugins | libraries | {loader: interpreter}).items():
        copy(source, staging / target.relative_to("/"))
    for target in programs:
        needed = [word for name in needed_by(target) for word in ("--add-needed", name)]
        patch(staging / target.relative_to("/"), "--set-interpreter", str(loader), *needed)
    for target in plugins | libraries:
        if target.name != "libc.so.6":
            patch(staging / target.relative_to("/"))
    redirect_loader_files(staging / loader.relative_to("/"))
    copy(native / "sbcast", staging / (PREFIX / "bin" / "sbcast").relative_to("/"))
    for name in ("pause", "job_init", "late_runner", "jail_probe", "sack_door"):
        copy(native / name, staging / (PREFIX / "libexec" / name).relative_to("/"))
    # Apart from Slurm's own libraries: it runs with the jail's libc.
    copy(native / "no_driver.so", staging / (PREFIX / "driver" / "no_driver.so").relative_to("/"))
    copy(native / "su", staging / "usr/bin/su")
    copy(native / "slurmd_start", staging / "usr/libexec/slurm-node/slurmd")
    copy(native / "sshd_guard.so", staging / "usr/libexec/slurm-node/sshd_guard.so")
    copy(native / NSS, staging / system_libraries.relative_to("/") / NSS)
    copy(native / "pam_jail.so", staging / system_libraries.relative_to("/") / "security" / "pam_jail.so")
    link_compiled_in_paths(staging, [*programs, PREFIX / "bin" / "sbcast"], compiled_in_plugins)
    copied = [*programs.values(), *plugins.values(), *libraries.values(), interpreter]
    note_packages(staging / "var/lib/dpkg/status.d", packages_of(copied))
    (staging / "opt/slurm/VERSION").write_text(version + "\n")


def refuse_an_old(version: str) -> None:
    """Ends the build if Debian's slurmd is older than ``LEAST_VERSION``; the version is as dpkg writes it."""
    without_epoch = version.rpartition(":")[2]
    command = ["dpkg", "--compare-versions", without_epoch, "ge", LEAST_VERSION]
    if subprocess.run(command, check=False, timeout=60).returncode:
        sys.exit(
            f"the image can't have Slurm {version}, but {LEAST_VERSION} or newer: any user could have an older "
            "slurmdbd run SQL; renew the package lists, or take a newer Debian as the base"
        )


def target_of(plugin: str) -> Path:
    """Returns where the image has a plugin of Slurm's, by its file's name."""
    return ASIDE.get(plugin, PLUGINS) / plugin


def is_wanted(plugin: str) -> bool:
    """Tells whether the image has a plugin of Slurm's, by its file's name."""
    return plugin in ASIDE or not plugin.startswith(NAMED_BY_USERS)


def packages_of(files: Iterable[Path]) -> set[str]:
    """Returns Debian's packages that files come from; files of no package, such as ours, are left out."""
    paths = {str(file.resolve()) for file in files}
    # Packages from before the merged /usr still list /lib/… and /bin/….
    asked = {*paths, *(path.removeprefix("/usr") for path in paths)}
    # Its exit status only tells whether every path belongs to a package.
    answer = subprocess.run(["dpkg-query", "-S", *asked], check=False, capture_output=True, text=True, timeout=60)
    listed = [line.rpartition(": ")[0] for line in answer.stdout.splitlines() if not line.startswith("diversion ")]
    return {package for packages in listed for package in packages.split(", ")}


def note_packages(status: Path, packages: Iterable[str]) -> None:
    """Writes each package's entry to dpkg's ``status.d``, where scanners and the SBOM look for what was copied."""
    status.mkdir(parents=True)
    for package in packages:
        (status / package.partition(":")[0]).write_text(output("dpkg-query", "-s", package) + "\n")


def needed_by(program: Path) -> list[str]:
    """Returns the libraries of ours that a program is made to need."""
    guards = {GUARD: program == STEPD, MESSAGE_GUARD: program in LISTENERS, ROOT_GUARD: program.parent.name == "bin"}
    return [name for name, is_needed in guards.items() if is_needed]


def output(*command: str) -> str:
    """Returns what a command prints, without the last newline."""
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


def find_library(name: str, folders: Iterable[Path]) -> Path:
    """Returns the first folder's file of that name."""
    source = next((folder / name for folder in folders if (folder / name).exists()), None)
    return source or sys.exit(f"{name} is not installed")


def client_programs() -> list[Path]:
    """Returns Slurm's programs for users and administrators."""
    listed = output("dpkg", "-L", "slurm-client").splitlines()
    return [Path(line) for line in listed if line.startswith("/usr/bin/") and is_elf(Path(line))]


def is_elf(path: Path) -> bool:
    """Tells whether a file is a binary."""
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def libraries_of(binaries: Iterable[Path]) -> set[Path]:
    """Returns every library that the dynamic loader finds for the binaries, under the names that they ask for.

    Raises:
        SystemExit: a library is missing.
    """
    libraries: set[Path] = set()
    for binary in binaries:
        printed = output("ldd", str(binary))
        if missing := re.findall(r"(\S+) => not found", printed):
            sys.exit(f"{binary} needs {', '.join(missing)}, which no package in packages.build has")
        libraries |= {Path(path) for path in re.findall(r"=> (/\S+) \(", printed)}
    return libraries


def copy(source: Path, target: Path) -> None:
    """Copies a file, following links, and makes it executable and root's."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o755)


def patch(binary: Path, *more: str) -> None:
    """Lets a binary find its libraries in the prefix.

    DT_RPATH, not DT_RUNPATH. It also applies to what glibc itself opens by name (NSS modules). Users can't override it
    with LD_LIBRARY_PATH.
    """
    output("patchelf", "--force-rpath", "--set-rpath", f"{LIBRARIES}:{PLUGINS}", *more, str(binary))


def redirect_loader_files(loader: Path) -> None:
    """Makes the prefix's loader ignore /etc/ld.so.cache and /etc/ld.so.preload."""
    code = loader.read_bytes()
    for old, new in LOADER_FILES.items():
        if code.count(old) != 1 or len(old) != len(new):
            sys.exit(f"{loader}: expected {old!r} once, found {code.count(old)}")
        code = code.replace(old, new)
    loader.write_bytes(code)


def link_compiled_in_paths(staging: Path, programs: Iterable[Path], plugins: Path) -> None:
    """Makes the paths that Debian compiled into Slurm lead into the prefix."""
    for program in programs:
        link = staging / "usr" / program.parent.name / program.name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(program)
    (staging / plugins.relative_to("/")).symlink_to(PLUGINS)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
