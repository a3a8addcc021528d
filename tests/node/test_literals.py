"""C, Python and the image's files use the same names."""

import re
from pathlib import Path

from node_health import node
from slurm_node.pod import cgroups, paths
from slurm_node.roots import image_root

from contract import names, native
from contract import paths as shared

REPOSITORY = Path(__file__).resolve().parents[2]


def test_nothing_of_an_image_is_copied_over_the_tools() -> None:
    assert paths.TOOLS.parts[1] in image_root.LEFT_OUT


def test_slurm_starts_the_programs_that_the_image_brings() -> None:
    prolog = (REPOSITORY / "health/bin/node-health-prolog").read_text()
    assert f" {paths.PROLOG_REFUSED}\n" in prolog
    assert f" {paths.PLUGIN_REFUSED};" in prolog
    epilog = (REPOSITORY / "health/bin/node-health-epilog").read_text()
    assert all(f'"{paths.PROLOGS}/$SLURM_JOB_ID"\n' in script for script in (prolog, epilog))
    for program in (shared.HEALTH_PROGRAM, shared.HEALTH_PROLOG, shared.HEALTH_EPILOG):
        script = (REPOSITORY / "health/bin" / Path(program).name).read_text()
        assert Path(program).parent == Path("/usr/sbin")
        assert "/usr/sbin/node-health --record" in script or f"{node.JAIL_BROKEN} {node.UNFIT} " in script


def test_c_has_a_shared_fact_from_the_contract_alone() -> None:
    facts = {value for value in native.DEFINES.values() if isinstance(value, str)}
    sources = [*(REPOSITORY / "native").glob("*/*.[ch]")]
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
    slurm = REPOSITORY / "images/slurm"
    assert f"pam_jail.so {paths.TREE}" in (slurm / "rootfs/etc/pam.d/sshd").read_text()
    sshd = (slurm / "rootfs/etc/ssh/sshd_config").read_text()
    assert f"AuthorizedKeysFile {paths.TREE}%h/" in sshd
    assert f"Banner {paths.SSH_BANNER}\n" in sshd
    assert all(f"HostKey {paths.SSH_KEYS}/" in line for line in re.findall(r"^HostKey .*$", sshd, re.MULTILINE))
    for name in ("slurm", "jail"):
        assert f"slurm:x:{names.SLURM_UID}:" in (REPOSITORY / "images" / name / "Containerfile").read_text()
