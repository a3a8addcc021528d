"""slurmdbd gets its password, and slurmctld runs without slurmdbd."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from slurm_node.pod.log import NodeError
from slurm_node.roles import accounting
from slurm_node.slurm import slurmdbd_fallback
from slurm_node.slurm.slurmdbd_fallback import Mode

SCRIPTED = b"StoragePassScript=/run/slurmdbd/password\n"


@pytest.mark.parametrize("password", [b"plain", b"a b", b'"quoted"', b"#$\\'\"`!", "grüße 密".encode(), b"two\nlines"])
def test_a_script_hands_over_every_password_that_slurm_does_not_strip(password: bytes) -> None:
    assert accounting.password_line(password) == SCRIPTED


@pytest.mark.parametrize(
    ("password", "line"),
    [
        (b" inner and outer ", b'StoragePass=" inner and outer "\n'),
        (b"\tback\\slash#", b'StoragePass="\tback\\\\slash\\#"\n'),
    ],
)
def test_spaces_at_the_ends_stay_inside_quotes(password: bytes, line: bytes) -> None:
    assert accounting.password_line(password) == line


@pytest.mark.parametrize(
    ("password", "words"),
    [
        (b"", "is empty"),
        (b"a\0b", "NUL"),
        (b' "', "Slurm has no way to write that"),
        (b"from a file\n", "Is a newline at its end meant?"),
        (b" " + b"a" * 1024, "more than 1024 bytes"),
    ],
)
def test_a_password_that_slurm_cannot_take_is_refused_in_words(password: bytes, words: str) -> None:
    with pytest.raises(NodeError, match=words):
        accounting.password_line(password)


def test_the_script_prints_the_secrets_bytes_after_slurms_prefix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounting, "PASSWORD", tmp_path / "password")
    (tmp_path / "password").write_bytes(b"a'\"$`\\ b%s")
    script = tmp_path / "script"
    script.write_bytes(accounting.password_script())
    script.chmod(0o700)
    assert subprocess.run([script], capture_output=True, check=True, timeout=30).stdout == b"TOKEN=a'\"$`\\ b%s"


def test_files_with_secrets_are_the_owners_alone_whatever_was_there(tmp_path: Path) -> None:
    path = tmp_path / "slurmdbd.conf"
    path.write_bytes(b"old and longer")
    path.chmod(0o644)
    accounting._write(path, b"new", 0o600)
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("now", "known", "answers", "waited", "expected"),
    [
        (Mode.NOT_YET, False, False, 5, Mode.NOT_YET),
        (Mode.NOT_YET, False, True, 5, Mode.ACCOUNTED),
        (Mode.NOT_YET, True, False, 0, Mode.ACCOUNTED),
        (Mode.NOT_YET, False, False, 60, Mode.WITHOUT_ACCOUNTING),
        (Mode.WITHOUT_ACCOUNTING, False, False, 3600, Mode.WITHOUT_ACCOUNTING),
        (Mode.WITHOUT_ACCOUNTING, False, True, 3600, Mode.ACCOUNTED),
        (Mode.ACCOUNTED, False, False, 3600, Mode.ACCOUNTED),
    ],
)
def test_slurmctld_runs_without_accounting_only_while_slurmdbd_was_never_there(
    now: Mode, known: bool, answers: bool, waited: float, expected: Mode
) -> None:
    assert slurmdbd_fallback.mode(now, known=known, answers=answers, waited_seconds=waited) is expected


def test_everything_that_needs_slurmdbd_is_left_out_and_nothing_else() -> None:
    conf = (
        "ClusterName=dev\nAccountingStorageType=accounting_storage/slurmdbd\naccountingstorageTRES=gres/gpu\n"
        "AccountingStorageEnforce=limits\nPriorityType=priority/multifactor\nPriorityWeightAge=5\n"
        "PriorityWeightFairshare=7\nPriorityWeightQOS=7\nJobAcctGatherType=jobacct_gather/linux\n"
    )
    assert slurmdbd_fallback.without_accounting(conf) == (
        "ClusterName=dev\nPriorityType=priority/multifactor\nPriorityWeightAge=5\n"
        "JobAcctGatherType=jobacct_gather/linux\n"
    )


def test_weights_of_resources_that_slurmdbd_counts_are_left_out() -> None:
    """slurmctld ends with a weight of a resource that it does not count (slurm_get_tres_weight_array)."""
    conf = (
        "PriorityWeightTRES=CPU=1000,GRES/gpu=3000\n"
        "PartitionName=gpu TRESBillingWeights=CPU=1.0,Mem=0.25G,GRES/gpu=2.0 State=UP\n"
        "PartitionName=lic TRESBillingWeights=license/a=1\n"
    )
    assert slurmdbd_fallback.without_accounting(conf) == (
        "PriorityWeightTRES=CPU=1000\nPartitionName=gpu TRESBillingWeights=CPU=1.0,Mem=0.25G State=UP\n"
        "PartitionName=lic \n"
    )


def test_the_configuration_without_accounting_follows_the_active_one(tmp_path: Path) -> None:
    source, target = tmp_path / "active", tmp_path / "copy"
    source.mkdir()
    (source / "slurm.conf").write_text("A=1\nAccountingStorageType=x\n")
    (source / "gres.conf").write_text("AutoDetect=off\n")
    (source / "topology.yaml").write_text("- x\n")
    slurmdbd_fallback.write_scratch(source, target)
    assert (target / "topology.yaml").exists()
    (source / "topology.yaml").unlink()
    (source / "slurm.conf").write_text("A=2\nAccountingStorageType=x\n")
    slurmdbd_fallback.write_scratch(source, target)
    assert {file.name: file.read_text() for file in target.iterdir()} == {
        "slurm.conf": "A=2\n",
        "gres.conf": "AutoDetect=off\n",
    }


def test_a_cluster_that_slurmdbd_never_saw_takes_its_number_from_there() -> None:
    assert slurmdbd_fallback.without_id("dev|1234") == "dev"


@pytest.mark.parametrize(
    ("clusters", "state", "forgotten"),
    [
        ("dev\nother\n", "dev|1431", False),
        ("other\n", "dev|1431", True),
        ("", "dev", True),
        ("", "", False),
    ],
    ids=["known", "another database", "empty database", "never started"],
)
def test_an_empty_database_is_one_that_does_not_know_the_cluster(clusters: str, state: str, forgotten: bool) -> None:
    assert slurmdbd_fallback.is_forgotten(clusters, state) is forgotten
