"""Each node's driver in one shared root: two versions side by side, a node without one, ldconfig at any time."""

from __future__ import annotations

import os
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest
from slurm_node import driver

CHECKOUT = Path(__file__).parents[2]
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


def test_a_root_without_a_library_directory_gets_programs_alone(tmp_path: Path) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    driver.link(tmp_path)
    assert [path.name for path in (tmp_path / "usr").iterdir()] == ["bin"]


# In mount namespaces of its own: a copy of this machine's root as the shared root, and three nodes' views of it.
NODES = textwrap.dedent("""
    import subprocess, sys
    from pathlib import Path
    from slurm_node import driver, paths
    from slurm_node.system import MountFlag, mount

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

    trees = []
    for number, version in enumerate([*versions, None]):
        tree = work / f"tree{number}"
        tree.mkdir()
        mount(str(root), tree, flags=MountFlag.BIND)
        mount("run", tree / "run", "tmpfs")
        lines = []
        for name in ("libcuda.so", "libnvidia-ml.so") if version else ():
            file = work / f"driver{number}" / f"{name}.{version}"
            lines.append(f"1 1 0:1 / {file} ro - ext4 x rw")
        driver.bring(tree, "\\n".join(lines))
        trees.append(tree)

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
    (trees[0] / "etc/ld.so.cache").unlink()
    show("no cache")
    written = [path.name for path in (work / "overlay/upper").rglob("*") if any(each in path.name for each in versions)]
    print("written|", *written)
""")


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("gcc"), reason="takes root and a compiler")
def test_two_drivers_and_none_share_one_root_through_ldconfig_and_a_lost_cache(tmp_path: Path) -> None:
    subprocess.run(
        ["make", "-s", "-C", str(CHECKOUT / "native"), f"OUT={tmp_path}", str(tmp_path / "no_driver.so")], check=True
    )
    versions = {"570.86.15": 570, "535.230.02": 535}
    for number, (version, major) in enumerate(versions.items()):
        folder = tmp_path / f"driver{number}"
        folder.mkdir()
        for name in ("libcuda", "libnvidia-ml"):
            source = f"int cuInit(unsigned f) {{ return 0; }} int version(void) {{ return {major}; }}"
            command = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{name}.so.1", "-x", "c", "-", "-o"]
            subprocess.run([*command, str(folder / f"{name}.so.{version}")], input=source, text=True, check=True)
    done = subprocess.run(
        ["unshare", "--mount", shutil.which("python3") or "python3", "-c", NODES, str(tmp_path), *versions],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT / "images/slurm"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    none = "no NVIDIA driver on this node: jobs with --gres=gpu run on nodes that have one"
    expected = [("0 570", ""), ("0 535", ""), ("34 0", none)]
    lines = [line for line in done.stdout.splitlines() if "|" in line]
    assert lines == [
        *("|".join([when, *map(str, expected)]) for when in ("start", "ldconfig", "ldconfig", "no cache")),
        "written|",
    ]
