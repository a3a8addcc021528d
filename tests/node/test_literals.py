"""C, Python and the image's files use the same names."""

import re
from pathlib import Path

import pytest
from node_health import node
from slurm_node.pod import cgroups, paths
from slurm_node.roots import image_root

from contract import names, native, site_scripts
from contract import paths as shared
from devcluster.machine.bootstrap import CHECKOUT

HEALTH = "/usr/sbin/node-health"


def test_nothing_of_an_image_is_copied_over_the_tools() -> None:
    assert paths.TOOLS.parts[1] in image_root.LEFT_OUT


KINDS = site_scripts.Kind
SCRIPTS = {
    shared.HEALTH_PROLOG: {
        *(paths.JAIL_BROKEN, node.UNFIT, paths.PLUGIN_REFUSED, paths.PROLOG_REFUSED, f"{paths.PROLOG_REFUSED}.new"),
        *(f"{shared.ETC_SCRIPTS}/{KINDS.PROLOG}", shared.SITE_SCRIPTS, f"{shared.PREFIX}/bin/scontrol", paths.PROLOGS),
    },
    shared.HEALTH_EPILOG: {
        *(paths.PROLOGS, HEALTH, f"{shared.ETC_SCRIPTS}/{KINDS.EPILOG}", shared.SITE_SCRIPTS),
        *(f"{shared.NODE_RUN}/epilog-{lock}.lock" for lock in ("waits", "checks")),
        *(node.LOCK, node.FAULTY, paths.PROLOG_REFUSED, f"{paths.PROLOG_REFUSED}.new"),
    },
    shared.HEALTH_PROGRAM: {f"{shared.ETC_SCRIPTS}/{KINDS.HEALTH_CHECK}", shared.SITE_SCRIPTS, node.RESULTS, HEALTH},
}


@pytest.mark.parametrize("program", SCRIPTS, ids=lambda program: Path(program).name)
def test_slurm_starts_the_programs_that_the_image_brings(program: str) -> None:
    assert Path(program).parent == Path("/usr/sbin"), "the Containerfile copies health/bin there"
    script = (CHECKOUT / "health/bin" / Path(program).name).read_text()
    named = set(re.findall(r"(?<![\w/])/(?:etc|opt|run|usr)/[\w./-]*\w", script))
    assert named == {str(path) for path in SCRIPTS[program]}


def test_c_has_a_shared_fact_from_the_contract_alone() -> None:
    facts = {value for value in native.DEFINES.values() if isinstance(value, str)}
    sources = [*(CHECKOUT / "native").glob("*/*.[ch]")]
    copied = [
        f"{file.name}: {name}"
        for file in sources
        for name, value in re.findall(r'^#define (\w+) "?([^"\n]*)"?$', file.read_text(), re.MULTILINE)
        if name in native.DEFINES or value in facts
    ]
    assert copied == []
    used = " ".join(file.read_text() for file in sources)
    assert [name for name in native.DEFINES if not re.search(rf"\b{name}\b", used)] == [], "nothing in C uses them"


def test_the_native_programs_lie_where_the_contract_says() -> None:
    assert {Path(file).parent for file in (shared.JOB_INIT, shared.LATE_RUNNER)} == {paths.JAIL_PROBE.parent}
    assert Path(native.DEFINES["JOB_INIT_GROUP"]).parent == cgroups.CGROUPS / cgroups.PROCESSES_FOLDER


def test_the_images_files_name_the_same_paths_and_ids() -> None:
    slurm = CHECKOUT / "images/slurm"
    assert f"pam_jail.so {paths.TREE}" in (slurm / "rootfs/etc/pam.d/sshd").read_text()
    sshd = (slurm / "rootfs/etc/ssh/sshd_config").read_text()
    assert f"AuthorizedKeysFile {paths.TREE}%h/" in sshd
    assert f"Banner {paths.SSH_BANNER}\n" in sshd
    assert all(f"HostKey {paths.SSH_KEYS}/" in line for line in re.findall(r"^HostKey .*$", sshd, re.MULTILINE))
    for name in ("slurm", "jail"):
        assert f"slurm:x:{names.SLURM_UID}:" in (CHECKOUT / "images" / name / "Containerfile").read_text()
