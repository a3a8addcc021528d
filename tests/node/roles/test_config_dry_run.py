"""The config dry run and its conclusions; tests/e2e runs it with a real slurmctld."""

from __future__ import annotations

import json
import stat
import threading
import urllib.error
import urllib.request
from http.server import HTTPServer
from pathlib import Path

import pytest
from slurm_node.pod import paths
from slurm_node.roles import config_dry_run
from slurm_node.roles.config_dry_run import Verdict
from slurm_node.slurm import dry_run_files

GOLDEN = Path(__file__).parents[2] / "unit/golden"
CONF = """ClusterName=x
SlurmctldHost=slurm-controller-0(slurm-controller)
  statesavelocation = /var/spool/slurmctld
SlurmctldPidFile=/run/slurmctld/slurmctld.pid
AuthAltParameters=jwt_key=/run/slurmctld/jwt.key
AccountingStorageType=accounting_storage/slurmdbd
PriorityWeightFairshare=10
PartitionName=main Nodes=ALL
"""
PLUGSTACK = f"required {paths.PLUGIN} jail=/run/jail\n"
GRES = "NodeName=h100-[0-9999] AutoDetect=nvidia\nNodeName=a100-[00-99],b Name=gpu File=/dev/nvidia0\nAutoDetect=off\n"


def alone(slurm_conf: str, folder: Path) -> str:
    return dry_run_files.alone({"slurm.conf": slurm_conf}, folder)


def test_what_is_tried_reaches_nothing_of_the_cluster(tmp_path: Path) -> None:
    tried = alone(CONF, tmp_path)
    assert "slurm-controller" not in tried
    assert "Accounting" not in tried
    assert "Fairshare" not in tried
    assert "/var/spool" not in tried
    assert "/run/slurmctld" not in tried
    assert f"StateSaveLocation={tmp_path}/state" in tried


def test_lines_keep_their_numbers_for_slurmctlds_words(tmp_path: Path) -> None:
    tried = alone(CONF, tmp_path).splitlines()
    assert tried[7] == "PartitionName=main Nodes=ALL"
    assert len(tried) == len(CONF.splitlines())


def test_a_path_that_the_configuration_leaves_out_is_given(tmp_path: Path) -> None:
    assert f"SlurmctldPidFile={tmp_path}/slurmctld.pid" in alone("ClusterName=x\n", tmp_path)


def test_the_second_start_has_the_keys_of_accounting_and_reaches_no_slurmdbd(tmp_path: Path) -> None:
    tried = dry_run_files.alone({"slurm.conf": CONF}, tmp_path, 4711).splitlines()
    assert {"AccountingStorageType=accounting_storage/slurmdbd", "PriorityWeightFairshare=10"} <= set(tried)
    assert {"AccountingStorageHost=127.0.0.1", "AccountingStoragePort=4711"} <= set(tried)
    assert dry_run_files.has_accounting({"slurm.conf": CONF})
    assert not dry_run_files.has_accounting({"slurm.conf": "ClusterName=x\n"})


def test_a_cluster_without_accounting_has_one_start_with_all_of_its_keys(tmp_path: Path) -> None:
    conf = "ClusterName=x\nPriorityWeightFairshare=10\nPriorityWeightTRES=GRES/gpu=1\n"
    assert not dry_run_files.has_accounting({"slurm.conf": conf})
    assert conf in alone(conf, tmp_path)


def test_slurmctld_reads_every_line_of_gres_conf_for_a_node_that_is_named_there(tmp_path: Path) -> None:
    tried = dry_run_files.alone({"slurm.conf": CONF, "gres.conf": GRES}, tmp_path).splitlines()
    nodes = [line for line in tried if line.startswith("NodeName=")]
    assert nodes == [f"NodeName={name} State=CLOUD CPUs=4096" for name in ("h100-0", "a100-00")]
    assert not any(line.startswith("NodeName=") for line in alone(CONF, tmp_path).splitlines())


@pytest.mark.parametrize("stack", ["dev", "gpu.example"])
def test_the_programs_own_files_are_written_with_keys_of_their_own(stack: str, tmp_path: Path) -> None:
    files = {file.name: file.read_text() for file in (GOLDEN / stack).iterdir()}
    dry_run_files.prepare(files, tmp_path)
    assert {file.name for file in (tmp_path / "etc").iterdir()} == set(files)
    assert (tmp_path / "etc/cgroup.conf").read_text() == files["cgroup.conf"]
    assert stat.S_IMODE((tmp_path / "slurm.key").stat().st_mode) == 0o600
    assert "AccountingStorage" not in (tmp_path / "etc/slurm.conf").read_text()


@pytest.mark.parametrize(
    ("lines", "ended", "verdict"),
    [
        (["slurmctld: Running as primary controller"], False, Verdict(True, "")),
        (
            ["[x] error: Invalid bf_interval: -5", "error: Invalid bf_interval: -5"],
            False,
            Verdict(True, "Invalid bf_interval: -5"),
        ),
        (
            ["error: Parsing error", "fatal: Unable to process"],
            True,
            Verdict(False, "Parsing error; Unable to process"),
        ),
        (["error: Job accounting information gathered, but not stored"], False, Verdict(True, "")),
        (['error: Cannot use AutoDetect on cloud/dynamic node "h100-0"'], False, Verdict(True, "")),
        (["Killed"], True, Verdict(False, "Killed")),
        ([], True, Verdict(False, "slurmctld ended without a word")),
    ],
)
def test_the_verdict_is_slurmctlds(lines: list[str], ended: bool, verdict: Verdict) -> None:
    assert config_dry_run.judge(lines, ended=ended) == verdict


def test_files_that_slurmctld_does_not_read_are_looked_at() -> None:
    assert config_dry_run.dry_run({}) == Verdict(False, "there is no slurm.conf")
    refused = config_dry_run.dry_run({"slurm.conf": CONF, "plugstack.conf": "optional x\n"})
    assert not refused.accepted
    assert "plugstack.conf" in refused.words


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(config_dry_run, "dry_run", lambda files: Verdict("Bad" not in files["slurm.conf"], "words"))
    with HTTPServer(("127.0.0.1", 0), config_dry_run._Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def post(address: str, body: bytes) -> tuple[int, dict[str, object]]:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, body), timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_a_question_is_answered(address: str) -> None:
    assert post(address, b'{"files": {"slurm.conf": "Bad"}}') == (200, {"accepted": False, "words": "words"})
    assert post(address, b'{"files": {"slurm.conf": "Good"}}') == (200, {"accepted": True, "words": "words"})


@pytest.mark.parametrize("body", [b"no JSON", b"[]", b'{"files": {"../etc/passwd": "x"}}', b'{"files": {"a": 1}}'])
def test_what_is_no_question_is_refused_and_writes_nothing(address: str, body: bytes) -> None:
    status, answer = post(address, body)
    assert status == 400
    assert answer["error"]
