"""Lays the witness into a jail: its program, set-id, as a library and in an image, and the scripts that lines call."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from pathlib import Path

from tests.witness.cluster import Cluster
from tests.witness.commands import ATTACHED, KEPT
from tests.witness.values import BUNDLE, FOLDER, LIBRARY, LISTS, PROGRAM

SOURCE = Path(__file__).with_name("witness.c")
BATCH = """#!/bin/sh
# LABEL OPTIONS: sbatch that waits for its job's end, and says how that ended; a limit ends sbatch, and not this.
trap : TERM
label=$1; shift
sbatch --parsable --wait "$@" > {folder}/out/$label-id
status=$?
job=$(cat {folder}/out/$label-id)
[ -z "$job" ] || scontrol -o show job "$job" | tr ' ' '\\n' | grep -E '^(JobState|Reason|ExitCode)='
exit $status
"""
UNTIL_KEPT = f"until [ -s {KEPT} ]; do sleep 0.1; done\n"
"""Waits for the job's first step. On a login node, too: lines there attach to it."""
KEPT_STEP = f"""
srun -n1 --overlap --mem=0 sh -c 'echo "$SLURM_JOB_ID" > {KEPT}; while sleep 1; do echo "{ATTACHED}"; done' \\
    > {FOLDER}/scratch/kept-step 2>&1 &
{UNTIL_KEPT}"""
"""The job's first step, to which others attach."""
PROGRAMS = f"* {PROGRAM} task=%t offset=%o\n"
"""A list for --multi-prog: slurmstepd expands the two words. The label is the variable's."""
START_UP = "start-up"
"""The label of a witness in the user's start-up file."""
START_UP_MARK = "# of the witness"
IN_IMAGE = (
    "usr/bin/dash", "usr/bin/sh", "usr/bin/cat", "usr/bin/env", "usr/lib/*/libc.so.6", "usr/lib*/ld-linux*",
    "usr/lib/*/ld-linux*",
)  # fmt: skip
"""Files of the jail's root that an image needs, so that a shell and the witness run in it."""


def build(folder: Path) -> None:
    """The witness as a program, as a set-id root program and as a library; everything there is everybody's to read."""
    for name, options in (("program", ()), ("setid", ()), ("library.so", ("-DLIBRARY", "-shared", "-fPIC"))):
        command = ["gcc", "-Wall", "-Wextra", "-Werror", "-O1", *options, "-o", str(folder / name), str(SOURCE)]
        built = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert built.returncode == 0, built.stderr
    (folder / "setid").chmod(0o4755)


def make_bundle(jail: Path, bundle: Path) -> None:
    """A container's bundle with a shell of the jail's; the witness comes with /home."""
    root = bundle / "rootfs"
    for name in ("etc", "dev", "proc", "sys", "tmp", "home", "srv", "root", "usr/bin"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    for file in (file for pattern in IN_IMAGE for file in jail.glob(pattern)):
        copy = root / file.relative_to(jail)
        copy.parent.mkdir(parents=True, exist_ok=True)
        # A link to an absolute path would lead out of the jail's root.
        target = (
            jail / file.readlink().relative_to("/") if file.is_symlink() and file.readlink().is_absolute() else file
        )
        shutil.copy(target, copy)
    for name in ("hosts", "hostname", "resolv.conf"):
        (root / "etc" / name).touch()
    # crun makes the places of the job's folders in it, as whoever runs the step.
    root.chmod(0o777)
    (bundle / "config.json").write_text(json.dumps({"ociVersion": "1.0.2", "root": {"path": "rootfs"}}))


def plant(cluster: Cluster) -> None:
    """Makes the witness's folder with all that lines name; everybody may write there.

    Args:
        cluster: its jail gets it.
    """
    folder = folder_of(cluster)
    for name in ("", "out", "conf", "scratch", "lists"):
        (folder / name).mkdir()
        (folder / name).chmod(0o777)
    build(folder)
    (folder / "link").symlink_to("/proc/1/root")
    (folder / "lines").touch()
    (folder / "lines").chmod(0o666)
    make_bundle(cluster.root, cluster.home / BUNDLE.removeprefix("/home/"))
    _write_scripts(cluster, folder)
    copy = f"cp /run/slurm/conf/*.conf {FOLDER}/conf; rm {FOLDER}/conf/plugstack.conf; echo done"
    copied = cluster.at_login(copy)
    assert copied.stdout.endswith("done\n"), copied


def plant_start_up(cluster: Cluster, seed: int) -> None:
    """Adds the witness to the user's start-up file.

    Args:
        cluster: its user walks.
        seed: begins the label.
    """
    line = f'[ -n "$WITNESS" ] || {PROGRAM} label={seed}-{START_UP} {START_UP_MARK}'
    added = cluster.at_login(f"echo {shlex.quote(line)} >> ~/.profile && echo done")
    assert added.stdout.endswith("done\n"), added


def remove_start_up(cluster: Cluster) -> None:
    """Takes the witness out of the user's start-up file."""
    removed = cluster.at_login(f"sed -i '/{START_UP_MARK}$/d' ~/.profile && echo done")
    assert removed.stdout.endswith("done\n"), removed


def folder_of(cluster: Cluster) -> Path:
    """The witness's folder, from outside."""
    return cluster.home / FOLDER.removeprefix("/home/")


def _write_scripts(cluster: Cluster, folder: Path) -> None:
    preload = f"/usr/bin/env LD_PRELOAD={LIBRARY}"
    scripts = {who.value: f'#!/bin/sh\nexec {how} {preload} "$@"\n' for who, how in cluster.become.items()}
    for name, text in {**scripts, "batch": BATCH.format(folder=FOLDER)}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    lists = {
        "nodes": f"{cluster.workers[0]}\n", "variables": "A=1\0", "crontab": f"0 0 1 1 * {PROGRAM}\n",
        "programs": PROGRAMS, "programs-with-many-words": PROGRAMS.rstrip() + " \\\n word" * 300 + "\n",
    }  # fmt: skip
    for name, text in lists.items():
        (folder / LISTS.removeprefix(f"{FOLDER}/") / name).write_text(text)
