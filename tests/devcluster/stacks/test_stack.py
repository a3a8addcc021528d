"""The tracked stack config is never written; a lock is cancelled only when its holder is dead."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from devcluster import standin
from devcluster.machine.progress import StepFailed
from devcluster.stacks import kubernetes_plugin
from devcluster.stacks import stack as stacks
from devcluster.stacks.stack import Stack

TRACKED = "config:\n  pulumi-slurm:jail: {persistent: [/home]}\n  pulumi-slurm:nodeSets: [{name: cpu, replicas: 2}]\n"


@pytest.fixture
def stack(tmp_path, monkeypatch) -> Stack:
    monkeypatch.setattr(stacks, "CHECKOUT", tmp_path / "checkout")
    (tmp_path / "checkout").mkdir()
    (tmp_path / "checkout" / "Pulumi.dev.yaml").write_text(TRACKED)
    made = Stack(tmp_path / "state", Path("/nonexistent"), tmp_path / "kubeconfig")
    made.config_file.parent.mkdir(parents=True)
    made.config_file.write_text("encryptionsalt: v1:abc\n")
    return made


def config(stack: Stack) -> dict:
    return yaml.safe_load(stack.config_file.read_text())


def test_the_instances_config_is_the_tracked_one_and_its_facts(stack):
    stack.write_config({"jail": {"image": "localhost/jail:1"}})
    assert config(stack)["config"]["pulumi-slurm:jail"] == {"persistent": ["/home"], "image": "localhost/jail:1"}
    assert config(stack)["encryptionsalt"] == "v1:abc"
    assert (stacks.CHECKOUT / "Pulumi.dev.yaml").read_text() == TRACKED


def test_a_stack_may_have_its_file_in_another_folder(stack, tmp_path):
    (tmp_path / "Pulumi.other.yaml").write_text(TRACKED.replace("2}", "7}"))
    other = Stack(stack.folder, stack.binaries, stack.kubeconfig, "other", tracked=tmp_path / "Pulumi.other.yaml")
    other.write_config({})
    assert config(other)["config"]["pulumi-slurm:nodeSets"][0]["replicas"] == 7


def test_edits_by_hand_stay_until_the_tracked_file_changes(stack, capsys):
    stack.write_config({})
    edited = config(stack)
    edited["config"]["pulumi-slurm:nodeSets"][0]["replicas"] = 3
    stack.config_file.write_text(yaml.safe_dump(edited))
    stack.write_config({})
    assert config(stack)["config"]["pulumi-slurm:nodeSets"][0]["replicas"] == 3
    (stacks.CHECKOUT / "Pulumi.dev.yaml").write_text(TRACKED.replace("2}", "5}"))
    stack.write_config({})
    assert config(stack)["config"]["pulumi-slurm:nodeSets"][0]["replicas"] == 5
    assert config(stack)["encryptionsalt"] == "v1:abc"
    assert "starts from it again" in capsys.readouterr().err


def lock(stack: Stack, pid: int, host: str) -> None:
    folder = stack.folder / "backend" / ".pulumi" / "locks" / "organization" / "pulumi-slurm" / "dev"
    folder.mkdir(parents=True)
    (folder / "id.json").write_text(json.dumps({"pid": pid, "hostname": host}))


@pytest.fixture
def running(tmp_path: Path) -> Iterator[int]:
    """A process by the engine's name."""
    (tmp_path / "waits").mkdir()
    program = tmp_path / "waits" / "pulumi"
    program.write_text("#!/bin/sh\nread -r line\n")
    program.chmod(0o755)
    with subprocess.Popen([program], stdin=subprocess.PIPE) as process:
        yield process.pid
        process.kill()


def test_a_lock_that_may_be_alive_is_left_alone(stack, running):
    lock(stack, running, socket.gethostname())
    with pytest.raises(StepFailed, match="already runs on this stack"):
        stack.clear_dead_lock()


def test_a_lock_of_another_host_is_left_alone(stack):
    lock(stack, 2**22 - 3, "another-host")
    with pytest.raises(StepFailed, match="already runs on this stack"):
        stack.clear_dead_lock()


@pytest.mark.parametrize("pid", [2**22 - 3, os.getpid()], ids=["nobody's number", "another program's by now"])
def test_a_dead_engines_lock_is_cancelled(engine, pid):
    (engine.binaries / "pulumi").write_text("#!/bin/sh\necho $* > asked\n")
    lock(engine, pid, socket.gethostname())
    engine.clear_dead_lock()
    assert (stacks.CHECKOUT / "asked").read_text() == "cancel --yes dev\n"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["preview", "--json"], ["preview", "--config-file", "FILE", "--json"]),
        (["config", "set", "a", "b"], ["config", "--config-file", "FILE", "set", "a", "b"]),
        (["stack", "output"], ["stack", "output"]),
        (["up", "--config-file", "mine"], ["up", "--config-file", "mine"]),
    ],
)
def test_commands_that_take_a_config_file_get_the_instances(stack, given, expected):
    assert [word.replace(str(stack.config_file), "FILE") for word in stack.arguments(given)] == expected


@pytest.fixture
def engine(stack, tmp_path, monkeypatch) -> Stack:
    """A stack whose engine has no stack and no plugin."""
    (tmp_path / "pulumi").write_text("#!/bin/sh\necho '[]'\n")
    (tmp_path / "pulumi").chmod(0o755)
    monkeypatch.setattr(stacks, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.delenv("PULUMI_KUBERNETES_PLUGIN", raising=False)
    return Stack(stack.folder, tmp_path, stack.kubeconfig)


def test_the_engine_collects_garbage_late_and_a_persons_shell_is_not_told_so(stack):
    assert stack.environment()["GOGC"] == "400"
    assert "GOGC" not in stack.variables()


def test_a_plugin_that_the_environment_names_takes_the_place_of_the_stand_in_and_stays(engine, tmp_path, monkeypatch):
    engine.prepare()
    assert engine.variables()["PATH"].startswith(f"{standin.FOLDER}:")
    file = tmp_path / "official"
    file.touch(mode=0o700)
    monkeypatch.setattr(kubernetes_plugin, "_introduced", lambda *_: ("kubernetes", "4.99.0"))
    monkeypatch.setenv("PULUMI_KUBERNETES_PLUGIN", str(file))
    engine.prepare()
    monkeypatch.delenv("PULUMI_KUBERNETES_PLUGIN")
    engine.prepare()
    folder = Path(engine.variables()["PATH"].partition(":")[0])
    assert (folder / "pulumi-resource-kubernetes").resolve() == file
    assert engine.provider() == f"{file}, pulumi-resource-kubernetes 4.99.0"


def test_programs_that_a_test_puts_first_are_found_first(engine, monkeypatch):
    monkeypatch.setenv(stacks.PROGRAMS, "/first")
    assert engine.variables()["PATH"].startswith("/first:")


def test_what_the_environment_names_and_is_no_plugin_ends_up_in_a_sentence(engine, tmp_path, monkeypatch):
    monkeypatch.setenv("PULUMI_KUBERNETES_PLUGIN", str(tmp_path / "absent"))
    with pytest.raises(StepFailed, match=r"PULUMI_KUBERNETES_PLUGIN=.*: there is no such file"):
        engine.prepare()
