"""`make preview-gpu`: the GPU example by Pulumi's real engine, with no Kubernetes to reach."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from devcluster.cli import preview
from devcluster.machine.bootstrap import CHECKOUT
from devcluster.machine.progress import StepFailed
from devcluster.stacks.stack import PROGRAMS


def status() -> str:
    """Return what git sees of the checkout."""
    return subprocess.run(
        ["git", "status", "--porcelain"], cwd=CHECKOUT, capture_output=True, text=True, check=True
    ).stdout


def preview_of(file: str, folder: Path, python: Path) -> dict[str, Any]:
    """Return Pulumi's preview of a stack file; the checkout stays as it is."""
    before = status()
    output = folder / "preview.json"
    command = [sys.executable, "-m", "devcluster", "preview", file, "--out", str(output)]
    environment = {**os.environ, PROGRAMS: str(python)}
    done = subprocess.run(
        command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    assert status() == before
    answer: dict[str, Any] = json.loads(output.read_text())
    return answer


@pytest.fixture(scope="module")
def previewed(tmp_path_factory: pytest.TempPathFactory, preloaded: Path) -> dict[str, Any]:
    return preview_of("Pulumi.gpu.example.yaml", tmp_path_factory.mktemp("preview"), preloaded)


def created(previewed: dict[str, Any]) -> dict[str, str]:
    """Return what would be made: name of the resource → its type."""
    return {step["urn"].rpartition("::")[2]: step["newState"]["type"] for step in previewed["steps"]}


def test_the_example_is_previewed_from_end_to_end_without_a_cluster(previewed: dict[str, Any]) -> None:
    # The addresses of the load balancers are read once the cluster is there.
    reads = [step["urn"].rpartition("::")[2] for step in previewed["steps"] if step["op"] != "create"]
    assert sorted(reads) == ["slurm-login-address", "slurm-login-transfer-address"]
    types = created(previewed)
    assert types["research"] == "pulumi-slurm:index:SlurmCluster"
    assert types["cluster"] == "kubernetes:pulumi-slurm.dev/v1alpha1:SlurmCluster"
    assert types["h100-nodes"] == "kubernetes:pulumi-slurm.dev/v1alpha1:NodeSet"
    assert types["nicclusterpolicy-nic-cluster-policy"] == "kubernetes:mellanox.com/v1alpha1:NicClusterPolicy"
    every_type = {step["newState"]["type"] for step in previewed["steps"]}
    assert "kubernetes:cert-manager.io/v1:Certificate" in every_type
    assert types["accounting"] == "pulumi-slurm:index:Accounting"
    # Other makers' operators are there already: nothing of theirs is installed.
    assert not any("helm" in each or "kubernetes-cert-manager" in each for each in every_type)
    assert types["h100"] == types["cpu"] == "kubernetes:apps/v1:StatefulSet"


def test_a_sites_slurm_conf_in_this_programs_words_is_previewed(tmp_path: Path, preloaded: Path) -> None:
    types = created(preview_of("examples/Pulumi.odyssey.yaml", tmp_path, preloaded))
    node_sets = {name for name, kind in types.items() if kind.endswith("v1alpha1:NodeSet")}
    wanted = ["general", "interact", "unrestricted", "hernquist", "kuang", "bigmem", "gpgpu", "davis"]
    assert node_sets == {f"{name}-nodes" for name in wanted}


def test_a_file_that_is_not_there_is_told_in_a_sentence() -> None:
    with pytest.raises(StepFailed, match=r"no stack file Pulumi\.other\.yaml"):
        preview.preview(Path("Pulumi.other.yaml"))
