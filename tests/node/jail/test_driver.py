"""Each node's driver in one shared root: two versions side by side, a node without one, ldconfig at any time."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest
from slurm_node.jail import driver

from devcluster.machine.bootstrap import CHECKOUT

LINE = "31 20 0:27 / {} ro,nosuid,nodev - ext4 /dev/sda1 rw"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"


def mountinfo(*points: str) -> str:
    return "\n".join(LINE.format(point) for point in points)


def test_the_toolkits_files_are_told_from_other_mounts() -> None:
    ours = [
        f"{LIBRARIES}/libcuda.so.570.86.15",
        f"{LIBRARIES}/libnvidia-ml.so.570.86.15",
        f"{LIBRARIES}/libcudadebugger.so.570.86.15",
        "/usr/bin/nvidia-smi",
    ]
    others = [
        "/",
        "/proc/driver/nvidia",
        "/dev/nvidia0",
        "/run/jail/run/node/driver/lib/libcuda.so.570.86.15",
        "/etc/hosts",
    ]
    assert [str(path) for path in driver.put_by_toolkit(mountinfo(*ours, *others))] == ours


@pytest.mark.parametrize(
    ("soname", "expected"),
    [
        ("libcuda.so.1", "libcuda.so.570.86.15"),
        ("libnvidia-ml.so.1", "libnvidia-ml.so.1"),
        ("libnvidia-nvvm.so.4", None),
    ],
)
def test_a_name_stands_for_the_nodes_version(soname: str, expected: str | None) -> None:
    names = ["libcuda.so.570.86.15", "libcudadebugger.so.570.86.15", "libnvidia-ml.so.1"]
    assert driver.library_for(soname, names) == expected


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in (*driver.library_folders()[:1], "usr/bin"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


def libraries(root: Path) -> Path:
    return root / driver.library_folders()[0]


def test_a_root_gets_links_that_name_no_node(root: Path) -> None:
    driver.link(root)
    driver.link(root)
    assert {path.name for path in libraries(root).iterdir()} == set(driver.SONAMES)
    assert (libraries(root) / "libcuda.so.1").readlink() == Path("/run/node/driver/lib/libcuda.so.1")
    assert (root / "usr/bin/nvidia-smi").readlink() == Path("/run/node/driver/bin/nvidia-smi")


def test_lost_and_wrong_links_are_mended_and_what_an_image_brought_stays(root: Path) -> None:
    driver.link(root)
    (libraries(root) / "libcuda.so.1").unlink()
    (libraries(root) / "libnvidia-ml.so.1").unlink()
    (libraries(root) / "libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.535.1")
    (root / "usr/bin/nvidia-smi").unlink()
    (root / "usr/bin/nvidia-smi").write_text("the image's own")
    driver.link(root)
    assert (libraries(root) / "libcuda.so.1").is_symlink()
    assert (libraries(root) / "libnvidia-ml.so.1").readlink() == Path("/run/node/driver/lib/libnvidia-ml.so.1")
    assert (root / "usr/bin/nvidia-smi").read_text() == "the image's own"


def test_what_a_package_put_into_a_root_in_use_is_put_right_and_told_once(
    root: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stale(*_: object) -> None:
        raise OSError(errno.ESTALE, "Stale file handle")

    links, library = driver.Links(root), libraries(root) / "libcuda.so.1"
    links.tick()
    for version in ("535.1", "999"):
        library.unlink()
        library.symlink_to(f"libcuda.so.{version}")
        (root / "usr/bin/nvidia-smi").unlink(missing_ok=True)
        (root / "usr/bin/nvidia-smi").write_text("the package's")
        links.tick()
        links.tick()
        assert library.readlink() == Path("/run/node/driver/lib/libcuda.so.1")
    library.unlink()
    links.tick()
    assert library.is_symlink()
    monkeypatch.setattr(driver, "opened_inside", stale)
    links.tick()
    links.tick()
    told = [line.partition(": ")[2] for line in "".join(capfd.readouterr()).splitlines()]
    package = (
        f"/{driver.library_folders()[0]}/libcuda.so.1 led to 'libcuda.so.{{}}': now it leads to each node's own driver"
    )
    own = "/usr/bin/nvidia-smi is a file of the root's own: programs don't find this node's driver there"
    assert told[:3] == [package.format("535.1"), own, package.format("999")]
    assert len(told) == 4
    assert told[3].startswith("the links to the node's driver can't be looked after: ")


def test_a_root_without_a_library_directory_gets_programs_alone(tmp_path: Path) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    driver.link(tmp_path)
    assert [path.name for path in (tmp_path / "usr").iterdir()] == ["bin"]


# In mount namespaces of its own: a copy of this machine's root as the shared root, of which nodes have views.
SHARED_ROOT = textwrap.dedent("""
    import ctypes, os, subprocess, sys
    from pathlib import Path
    from slurm_node.jail import driver
    from slurm_node.pod import paths
    from slurm_node.pod.system import MountFlag, mount

    work, versions = Path(sys.argv[1]), sys.argv[2:]
    mount("none", Path("/"), flags=MountFlag.REC | MountFlag.PRIVATE)
    for name in ("upper", "scratch", "root"):
        (work / "overlay" / name).mkdir(parents=True)
    # Overlay file systems cannot lie on one another here: their layers are in memory.
    mount("layers", work / "overlay", "tmpfs")
    for name in ("upper", "scratch", "root"):
        (work / "overlay" / name).mkdir()
    root = work / "overlay/root"
    layers = f"lowerdir=/,upperdir={work}/overlay/upper,workdir={work}/overlay/scratch"
    mount("root", root, "overlay", data=layers)
    (root / "opt/slurm/driver").mkdir(parents=True, exist_ok=True)
    (root / paths.NO_DRIVER.relative_to("/")).write_bytes((work / "no_driver.so").read_bytes())

    def node(number, version):
        tree = work / f"tree{number}"
        tree.mkdir()
        mount(str(root), tree, flags=MountFlag.BIND)
        mount("run", tree / "run", "tmpfs")
        lines = []
        for name in ("libcuda.so", "libnvidia-ml.so") if version else ():
            file = work / f"driver-{version}" / f"{name}.{version}"
            lines.append(f"1 1 0:1 / {file} ro - ext4 x rw")
        driver.bring(tree, "\\n".join(lines))
        return tree

    def written():
        names = [path.name for path in (work / "overlay/upper").rglob("*")]
        return [name for name in names if any(each in name for each in versions) or "libcuda.so.1." in name]
""")

NODES = SHARED_ROOT + textwrap.dedent("""
    trees = [node(number, version) for number, version in enumerate([*versions, None])]

    def ask(tree):
        code = "import ctypes; c = ctypes.CDLL('libcuda.so.1'); print(c.cuInit(0), getattr(c, 'version', lambda: 0)())"
        done = subprocess.run(["chroot", tree, sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        return done.stdout.strip(), done.stderr.strip()

    def show(when):
        print(when, *(ask(tree) for tree in trees), sep="|")

    show("start")
    for tree in (trees[0], trees[-1]):
        subprocess.run(["chroot", tree, "/sbin/ldconfig"], check=True, timeout=60)
        show("ldconfig")
    (root / "trigger.deb").write_bytes((work / "trigger.deb").read_bytes())
    for tree in (trees[1], trees[-1]):
        command = ["chroot", tree, "dpkg", "--install", "/trigger.deb"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        show("package" if "Processing triggers for libc-bin" in done.stdout else done.stdout + done.stderr)
    (trees[0] / "etc/ld.so.cache").unlink()
    show("no cache")
    print("written|", *written())
""")

# Fifty nodes at once, half with one driver, half with another, while somebody takes links away and runs ldconfig.
STARTS = SHARED_ROOT + textwrap.dedent("""
    spoiler = node(50, None)
    ends, begins = os.pipe()

    def start(number):
        os.read(ends, 1)
        ctypes.CDLL(None).unshare(0x20000)  # CLONE_NEWNS
        version = versions[number % len(versions)]
        os.chroot(node(number, version))
        os.chdir("/")
        return ctypes.CDLL("libcuda.so.1").version() == int(version.split(".")[0])

    processes = {}
    for number in range(50):
        process = os.fork()
        if process == 0:
            try:
                os._exit(not start(number))
            except BaseException as error:
                print(number, repr(error), flush=True)
                os._exit(1)
        processes[process] = number
    os.write(begins, b"." * 50)
    failed = 0
    for round in range(len(processes)):
        if round % 10 == 0:
            subprocess.run(["chroot", spoiler, "/sbin/ldconfig"], check=True, timeout=60)
        failed += os.wait()[1] != 0
    links = driver.library_folders()[0]
    left = [name for name in driver.SONAMES if not (spoiler / links / name).is_symlink()]
    print("failed|", failed, "missing|", *left, "written|", *written())
""")


def run_nodes(script: str, folder: Path, *versions: str) -> str:
    """Runs a script of nodes with fake drivers of these versions, and returns what it prints."""
    make = ["make", "-s", "-C", str(CHECKOUT / "native"), f"OUT={folder}", str(folder / "no_driver.so")]
    subprocess.run(make, check=True)
    for version in versions:
        drivers = folder / f"driver-{version}"
        drivers.mkdir()
        for name in ("libcuda", "libnvidia-ml"):
            major = int(version.split(".")[0])
            source = f"int cuInit(unsigned f) {{ return 0; }} int version(void) {{ return {major}; }}"
            command = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{name}.so.1", "-x", "c", "-", "-o"]
            subprocess.run([*command, str(drivers / f"{name}.so.{version}")], input=source, text=True, check=True)
    done = subprocess.run(
        ["unshare", "--mount", shutil.which("python3") or "python3", "-c", script, str(folder), *versions],
        env={**os.environ, "PYTHONPATH": f"{CHECKOUT}/images/slurm:{CHECKOUT}", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def make_package(folder: Path) -> None:
    """A package with a library, whose installation makes dpkg run ldconfig (the trigger of libc-bin)."""
    package = folder / "trigger"
    library = package / driver.library_folders()[0] / "libtrigger.so.1"
    library.parent.mkdir(parents=True)
    library.write_bytes((folder / "no_driver.so").read_bytes())
    (package / "DEBIAN").mkdir()
    fields = {"Package": "trigger", "Version": "1", "Architecture": "all", "Maintainer": "x", "Description": "x"}
    (package / "DEBIAN/control").write_text("".join(f"{name}: {value}\n" for name, value in fields.items()))
    (package / "DEBIAN/triggers").write_text("activate-noawait ldconfig\n")
    command = ["dpkg-deb", "--root-owner-group", "--build", str(package), str(folder / "trigger.deb")]
    subprocess.run(command, check=True, timeout=60, stdout=subprocess.DEVNULL)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("gcc"), reason="takes root and a compiler")
def test_two_drivers_and_none_share_one_root_through_ldconfig_packages_and_a_lost_cache(tmp_path: Path) -> None:
    subprocess.run(
        ["make", "-s", "-C", str(CHECKOUT / "native"), f"OUT={tmp_path}", str(tmp_path / "no_driver.so")], check=True
    )
    make_package(tmp_path)
    printed = run_nodes(NODES, tmp_path, "570.86.15", "535.230.02")
    none = "no NVIDIA driver on this node: jobs with --gres=gpu run on nodes that have one"
    expected = [("0 570", ""), ("0 535", ""), ("34 0", none)]
    lines = [line for line in printed.splitlines() if "|" in line]
    assert lines == [
        *(
            "|".join([when, *map(str, expected)])
            for when in ("start", "ldconfig", "ldconfig", "package", "package", "no cache")
        ),
        "written|",
    ]


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("gcc"), reason="takes root and a compiler")
def test_fifty_nodes_that_start_at_once_each_find_their_own_driver(tmp_path: Path) -> None:
    assert run_nodes(STARTS, tmp_path, "570.86.15", "535.230.02").splitlines()[-1] == "failed| 0 missing| written|"


def test_links_that_vanish_while_they_are_mended_are_made_again(root: Path) -> None:
    """Fifty nodes at it, and somebody who takes links away all the time."""
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=link_often, args=(root,)) for _ in range(50)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        for name in driver.SONAMES:
            (libraries(root) / name).unlink(missing_ok=True)
    assert [writer.exitcode for writer in writers] == [0] * 50
    driver.link(root)
    assert {path.name for path in libraries(root).iterdir()} == set(driver.SONAMES)


def link_often(root: Path) -> None:
    for _ in range(20):
        driver.link(root)
