"""Inputs of an image's build, and the changes that need a new build."""

import contextlib
import dataclasses
import os
import subprocess
import time
from pathlib import Path

import pytest

from devcluster.images import image_builder, image_recipe, images


@pytest.mark.parametrize("name", image_recipe.NAMES)
def test_an_images_tag_is_the_same_each_time_and_names_no_moving_thing(name: str) -> None:
    assert image_recipe.read_recipe(name).reference == image_recipe.read_recipe(name).reference
    assert image_recipe.read_recipe(name).tag not in ("", "latest")


def test_every_input_changes_the_tag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_recipe, "REPOSITORY", tmp_path)
    file = tmp_path / "file"
    file.write_text("1")
    recipe = image_recipe.Recipe("x", "FROM scratch", {"BASE": ("a", "b")}, (file,), "forky")
    tags = {
        recipe.tag,
        dataclasses.replace(recipe, containerfile="FROM other").tag,
        dataclasses.replace(recipe, package_lists={"BASE": ("a",)}).tag,
        dataclasses.replace(recipe, suite="trixie").tag,
        dataclasses.replace(recipe, inputs=()).tag,
    }
    file.write_text("2")
    tags.add(recipe.tag)
    file.chmod(0o755)
    tags.add(recipe.tag)
    assert len(tags) == 7


def test_what_a_containerfile_copies_is_an_input_and_build_results_are_not() -> None:
    inputs = {str(path.relative_to(image_recipe.REPOSITORY)) for path in image_recipe.read_recipe("slurm").inputs}
    copied = {"native/jail/jail.c", "images/slurm/slurm_node/jail/tree.py", "images/slurm/rootfs/etc/nsswitch.conf"}
    assert copied <= inputs
    assert not [path for path in inputs if "__pycache__" in path or path.startswith("native/build/")]


def test_the_history_of_a_plugins_source_is_no_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_recipe, "REPOSITORY", tmp_path)
    for name in ("pyxis/.git/HEAD", "pyxis/Makefile"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert list(image_recipe._files_below(tmp_path / "pyxis")) == [tmp_path / "pyxis/Makefile"]


def test_an_options_packages_are_in_the_base_only_when_its_source_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    option = tmp_path / "jail" / "enroot"
    option.mkdir(parents=True)
    (tmp_path / "suite").write_text("forky\n")
    (tmp_path / "jail" / "Containerfile").write_text("FROM scratch\n")
    (tmp_path / "jail" / "packages").write_text("git\n")
    (option / "packages").write_text("jq\nparallel\n")
    monkeypatch.setattr(image_recipe, "IMAGES", tmp_path)
    monkeypatch.setattr(image_recipe, "SUITE_FILE", tmp_path / "suite")
    assert image_recipe.read_recipe("jail").package_lists == {"BASE": ("git",)}
    (option / "source").mkdir()
    assert image_recipe.read_recipe("jail").package_lists == {"BASE": ("git", "jq", "parallel")}


def test_a_complete_archive_is_not_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = image_recipe.read_recipe("jail")
    archive = tmp_path / "images" / f"jail-{recipe.tag}.tar"
    archive.parent.mkdir()
    archive.touch()
    monkeypatch.setattr(image_builder.Builder, "build", lambda *_: pytest.fail("built"))
    assert images.build_all(tmp_path, ["jail"])["jail"] == images.Image(recipe.reference, archive)


def test_a_failed_step_names_its_log_and_shows_its_end(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    with pytest.raises(images.ImageError, match=r"making x failed \(exit code 3\).*x\.log:\n(.|\n)*the reason"):
        image_builder.run_step(["sh", "-c", "echo the reason; exit 3"], log, "making x")


@pytest.mark.parametrize(("works_at", "succeeds"), [(3, True), (4, False)])
def test_a_step_that_the_kernel_was_too_busy_for_is_tried_three_times(
    tmp_path: Path, works_at: int, succeeds: bool
) -> None:
    count = tmp_path / "count"
    step = (
        f"echo >> {count}; [ $(wc -l < {count}) = {works_at} ] || {{ echo 'Close_Fd {image_builder.BUSY}'; exit 1; }}"
    )
    with contextlib.nullcontext() if succeeds else pytest.raises(images.ImageError, match="making x failed"):
        image_builder.run_step(["sh", "-c", step], tmp_path / "x.log", "making x")
    assert len(count.read_text()) == 3


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("sources.list.d/debian.sources", "Types: deb\nURIs: http://mirror.test/debian\nSuites: x\n"),
        ("sources.list", "# deb http://no\ndeb [arch=amd64] http://mirror.test/debian bookworm main\n"),
    ],
)
def test_packages_come_from_where_this_machine_gets_its_own(tmp_path: Path, file: str, text: str) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(text)
    assert image_builder.apt_mirror(tmp_path) == "http://mirror.test/debian"


def test_a_machine_without_a_mirror_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(images.ImageError, match="no package mirror"):
        image_builder.apt_mirror(tmp_path)


def test_an_archive_that_was_used_lately_stays_beside_the_newest(tmp_path: Path) -> None:
    now = time.time()
    for number, age in enumerate((0, 10, 20, 30, images.USED_SECONDS + 60)):
        archive = tmp_path / f"slurm-{number}.tar"
        archive.touch()
        os.utime(archive, (now - age, now - age))
    images._prune(tmp_path, "slurm")
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"slurm-{number}.tar" for number in range(4)]


APT_GET = """#!/bin/sh
# Installs one package as in debian:*-slim, whose dpkg leaves out what is below /usr/share but for licences.
set -f
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
[ "$1" = install ] || exit 0
for word in "$@"; do
    case $word in Dpkg::Options::=*) options="$options ${word#Dpkg::Options::=}" ;; esac
done
exec dpkg --root=ROOT --force-not-root '--path-exclude=/usr/share/man/*' '--path-exclude=/usr/share/doc/*' \
    $options --unpack ROOT/page.deb
"""


def test_man_pages_are_installed_into_a_base_that_leaves_them_out(tmp_path: Path) -> None:
    package, root, programs = (tmp_path / name for name in ("package", "root", "programs"))
    for folder in ("DEBIAN", "usr/share/man/man5", "usr/share/doc/page"):
        (package / folder).mkdir(parents=True)
    (package / "DEBIAN/control").write_text(
        "Package: page\nVersion: 1\nArchitecture: all\nMaintainer: none\nDescription: none\n"
    )
    for file in ("man/man5/page.5.gz", "doc/page/read-me"):
        (package / "usr/share" / file).touch()
    for folder in ("info", "updates", "triggers"):
        (root / "var/lib/dpkg" / folder).mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    subprocess.run(["dpkg-deb", "--build", package, root / "page.deb"], check=True, capture_output=True, timeout=60)
    programs.mkdir()
    (programs / "tr").symlink_to("/usr/bin/tr")
    # It cleans up the image that it is in: not this machine.
    for name, text in {"apt-get": APT_GET.replace("ROOT", str(root)), "dpkg-query": "exit 1", "rm": ""}.items():
        (programs / name).write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    listed = tmp_path / "packages"
    listed.write_text("page\n")
    subprocess.run(
        [image_recipe.IMAGES / "install_packages", listed], env={"PATH": str(programs)}, check=True, timeout=60
    )
    assert (root / "usr/share/man/man5/page.5.gz").exists()
    assert not (root / "usr/share/doc/page/read-me").exists()
