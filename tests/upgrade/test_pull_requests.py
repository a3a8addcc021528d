"""The workflow that comments on pull requests: what it needs of GitHub is pinned, the rest of it is run here."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.machine import bootstrap
from devcluster.machine.bootstrap import CHECKOUT
from devcluster.node import toolchain
from tests.known_packages import python_that_knows_its_packages
from tests.upgrade.recorded_stack import STATES, RecordedStack

WORKFLOW = CHECKOUT / ".github" / "workflows" / "preview.yml"
JOB: dict[str, Any] = yaml.safe_load(WORKFLOW.read_text())["jobs"]["preview"]
STEPS: dict[str, dict[str, Any]] = {step["name"]: step for step in JOB["steps"]}
COMMENT = runpy.run_path(str(CHECKOUT / ".ci" / "preview_comment.py"))


@dataclass(frozen=True)
class Runner:
    """A runner after the steps that need GitHub and the network: it has files, Python packages and a stack's state."""

    checkout: Path
    stack: RecordedStack

    def run(self, step: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a step as a runner does: its lines, by `bash -e`."""
        return subprocess.run(
            ["bash", "-e", "-c", STEPS[step]["run"]],
            cwd=self.checkout, env={**self.stack.environment, "STACK": "dev", **more},
            capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip

    def comment_on(self, config: Mapping[str, Any]) -> str:
        """The comment on a pull request with this stack's file."""
        (self.checkout / "Pulumi.dev.yaml").write_text(yaml.safe_dump(config))
        previewed = self.run("Preview")
        outcome = "success" if previewed.returncode == 0 else "failure"
        assert self.run("Comment's text", OUTCOME=outcome).returncode == 0, previewed.stdout + previewed.stderr
        return (self.checkout / "comment.md").read_text()


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory, binaries: Path) -> Runner:
    copy = tmp_path_factory.mktemp("runner") / "checkout"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=CHECKOUT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        if (CHECKOUT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(CHECKOUT / name, copy / name)
    (copy / ".venv").symlink_to(Path(sys.executable).parent.parent)
    # It imports its own copy: a file that Git does not know would be missing there.
    python = python_that_knows_its_packages(tmp_path_factory.mktemp("python"))
    return Runner(copy, RecordedStack(tmp_path_factory.mktemp("stack"), binaries, python, STATES[-1]))


def test_the_comment_shows_what_would_change_though_no_cluster_is_reached(runner: Runner) -> None:
    edited = yaml.safe_load(runner.stack.config_file.read_text())
    # As it was recorded: a change as large as a new database is cut in a comment.
    edited["config"]["pulumi-slurm:accounting"] = {"mode": "off"}
    comment = runner.comment_on(edited)
    assert comment.startswith("### Pulumi preview of `dev`\n\n")
    assert re.search(r"\d+ to update", comment.splitlines()[2]), comment
    # The objects come first: each new one takes room in the comment, which ends at GitHub's limit.
    objects = comment.partition("```diff\n")[2].partition("\n\n")[0].splitlines()
    assert "~ kubernetes:apps/v1:StatefulSet slurm-controller" in objects, comment
    assert any(line.startswith("+ kubernetes:") for line in objects), comment
    assert runner.stack.environment["PULUMI_CONFIG_PASSPHRASE"] not in comment


def test_a_wrong_configuration_fails_the_check_and_the_comment_says_what_is_wrong(runner: Runner) -> None:
    wrong = yaml.safe_load(runner.stack.config_file.read_text())
    wrong["config"]["pulumi-slurm:nodeSets"][0]["replicas"] = -1
    comment = runner.comment_on(wrong)
    assert "**The preview failed.**" in comment
    assert "pulumi-slurm:nodeSets[0].replicas: got -1; want 0 or more" in comment


def test_it_installs_what_this_project_pins() -> None:
    assert STEPS["Pulumi"]["with"]["pulumi-version"] == toolchain.PULUMI_VERSION
    assert str(bootstrap.REQUIREMENTS.relative_to(CHECKOUT)) in STEPS["Python packages"]["run"]
    assert "--require-hashes" in STEPS["Python packages"]["run"]


def test_every_action_is_pinned_by_its_commit_with_the_version_beside_it() -> None:
    uses = [line.strip() for line in WORKFLOW.read_text().splitlines() if "uses:" in line]
    assert len(uses) == 3
    assert all(re.fullmatch(r"uses: (actions|pulumi)/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line) for line in uses)


def test_the_workflow_has_no_way_to_a_cluster_and_few_rights() -> None:
    content = yaml.safe_load(WORKFLOW.read_text())
    assert content["permissions"] == {}
    assert JOB["permissions"] == {"contents": "read", "pull-requests": "write"}
    # YAML reads the key `on` as true.
    assert list(content[True]) == ["pull_request"]
    assert "kube" not in WORKFLOW.read_text().lower().replace("no kubernetes", "")
    secrets = set(re.findall(r"secrets\.(\w+)", WORKFLOW.read_text()))
    assert secrets == {"PULUMI_BACKEND_URL", "PULUMI_ACCESS_TOKEN", "PULUMI_CONFIG_PASSPHRASE"}
    page = (CHECKOUT / "docs" / "pull-requests.md").read_text()
    assert all(f"`{name}`" in page for name in [*secrets, "PULUMI_STACK"])


def test_a_comment_is_never_longer_than_github_takes_and_its_block_never_ends_early() -> None:
    long = COMMENT["comment"]("dev", "success", "```` " + "x" * 100_000 + "\nResources:\n    + 1 to create\n")
    assert len(long) < 65_536
    assert "\n`````diff\n" in long
    assert (
        COMMENT["summary"]("success", "Resources:\n    + 1 to create\n    2 unchanged\n\nx")
        == "+ 1 to create, 2 unchanged"
    )
    assert COMMENT["summary"]("success", "Resources:\n") == "no changes"
