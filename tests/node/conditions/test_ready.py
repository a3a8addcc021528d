"""The probe that kubelets run in pods, and the state that it reads."""

import socket
import subprocess
from pathlib import Path

import pytest
from slurm_node.conditions import listening
from slurm_node.conditions.jail_watch import JailWatch
from slurm_node.pod import node_state
from slurm_node.pod import paths as pod_paths
from slurm_node.roles import login

from contract import paths, reasons
from devcluster.machine.bootstrap import CHECKOUT

PROBE = CHECKOUT / f"images/slurm/rootfs{paths.READY_PROBE}"
TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1
   1: 0100007F:1F90 0100007F:0050 01 00000000:00000000 00:00000000 00000000     0        0 2
"""
HANGS = "the pod's entry does not renew its state: does it hang?"


class Probe:
    """The probe on a test's folders. It finds no program but those of `programs`."""

    def __init__(self, folder: Path) -> None:
        text = PROBE.read_text()
        for place, here in ((paths.NODE_RUN, folder), (paths.REST_RUN, folder), (" 5 sacctmgr", " 0.5 sacctmgr")):
            assert place in text
            text = text.replace(place, str(here))
        self._script = folder / "probe"
        self._script.write_text(text)
        self.programs = folder / "programs"
        self.programs.mkdir()

    def says(self, role: str) -> str:
        """Return why the pod is not ready; empty when it is."""
        done = subprocess.run(
            ["/bin/sh", self._script, role],
            env={"PATH": str(self.programs)}, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == (1 if done.stderr else 0)
        assert done.stdout == ""
        return done.stderr.removeprefix("slurm-node: error: not ready: ").rstrip("\n")

    def program(self, name: str, script: str) -> None:
        """A program that the probe finds."""
        file = self.programs / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)


@pytest.fixture
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Probe:
    monkeypatch.setattr(pod_paths, "OWN_RUN", tmp_path)
    monkeypatch.setattr(pod_paths, "NODE_STATE", tmp_path / pod_paths.NODE_STATE.name)
    monkeypatch.setattr(pod_paths, "STATE_UNTIL", tmp_path / pod_paths.STATE_UNTIL.name)
    return Probe(tmp_path)


@pytest.mark.parametrize(
    ("role", "first"),
    [("worker", "starting"), ("login", "starting"), ("directory", "the directory has not been asked yet")],
)
def test_a_pod_is_ready_when_its_entry_says_so_and_else_says_why(probe: Probe, role: str, first: str) -> None:
    assert probe.says(role) == first
    assert node_state.write("Slurm finds 3 of 4 GPUs:\n  'gpu' \\n 3 of 4")
    assert probe.says(role) == "Slurm finds 3 of 4 GPUs:   'gpu' \\n 3 of 4"
    assert node_state.write(node_state.READY)
    assert not node_state.write(node_state.READY)
    assert probe.says(role) == ""


def test_the_state_of_an_entry_that_hangs_does_not_count(probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    node_state.write(node_state.READY)
    past = pod_paths.OWN_RUN / "uptime"
    seconds = float(node_state.UPTIME.read_text().split()[0]) - node_state.COUNTS_SECONDS - 1
    past.write_text(f"{seconds:.2f} 1.00\n")
    with monkeypatch.context() as earlier:
        earlier.setattr(node_state, "UPTIME", past)
        node_state.renew()
        assert probe.says("worker") == HANGS
        node_state.write(node_state.READY, node_state.COUNTS_SECONDS + 600)
        assert probe.says("directory") == "", "its queries take longer"
    pod_paths.STATE_UNTIL.write_text("soon")
    assert probe.says("worker") == HANGS
    pod_paths.STATE_UNTIL.unlink()
    assert probe.says("worker") == HANGS
    node_state.renew()
    assert probe.says("worker") == ""


def test_a_wait_for_jobs_goes_on_when_no_state_can_be_written(probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    node_state.write(node_state.READY)
    monkeypatch.setattr(pod_paths, "STATE_UNTIL", Path("/proc/no-file"))
    with pytest.raises(OSError, match="no-file"):
        node_state.write(node_state.READY)
    node_state.renew()
    assert probe.says("worker") == ""


def test_slurmrestd_is_ready_when_its_socket_takes_connections(probe: Probe) -> None:
    path = pod_paths.OWN_RUN / pod_paths.REST_SOCKET.name
    assert probe.says("rest") == f"{path}: No such file or directory"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        assert probe.says("rest") == f"{path}: Connection refused"
        server.listen()
        assert probe.says("rest") == ""
    assert probe.says("rest") == f"{path}: Connection refused"


@pytest.mark.parametrize(
    ("sacctmgr", "said"),
    [
        ("echo cluster", ""),
        ("echo 'sacctmgr: error: no route' >&2; exit 1", "sacctmgr: error: no route"),
        ("exec /bin/sleep 60", "slurmdbd did not answer in 5 s"),
    ],
)
def test_slurmdbd_is_ready_when_a_query_returns(probe: Probe, sacctmgr: str, said: str) -> None:
    (probe.programs / "timeout").symlink_to("/usr/bin/timeout")
    wanted = "--noheader --parsable2 show cluster format=cluster"
    probe.program("sacctmgr", f'[ "$*" = "{wanted}" ] || exit 9\n{sacctmgr}')
    assert probe.says("accounting") == said


def test_a_role_without_a_probe_is_not_ready(probe: Probe) -> None:
    assert probe.says("controller") == "'controller' has no probe"


def test_a_login_node_without_sackd_or_sshd_is_not_ready(tmp_path: Path) -> None:
    sackd, table = tmp_path / "sack.socket", tmp_path / "tcp"
    watch = listening.Listening(sackd, (table, tmp_path / "tcp6"))
    table.write_text(TABLE.splitlines()[0])
    watch.tick(1.0)
    assert watch.sentence == "sackd does not listen"
    sackd.touch()
    watch.tick(1.5)
    assert watch.sentence == "sshd is not listening"
    table.write_text(TABLE)
    watch.tick(2.0)
    assert watch.sentence is None
    sackd.unlink()
    watch.tick(2.0 + listening.PERIOD_SECONDS)
    assert watch.sentence == "sackd does not listen"


def test_daemons_that_listen_are_looked_at_less_often(tmp_path: Path) -> None:
    sackd, table = tmp_path / "sack.socket", tmp_path / "tcp"
    sackd.touch()
    table.write_text(TABLE)
    watch = listening.Listening(sackd, (table,))
    watch.tick(0.0)
    table.unlink()
    watch.tick(listening.PERIOD_SECONDS - 0.1)
    assert watch.sentence is None


def test_a_login_node_says_first_why_its_jail_lets_nobody_in(tmp_path: Path) -> None:
    watch = JailWatch(("true",), tmp_path / "broken", tmp_path / "worked")
    assert login.state_of(watch, None) == reasons.NO_PROBE_YET
    watch.tried, watch.sentence = True, "the jail is not mounted"
    assert login.state_of(watch, "sshd is not listening") == "the jail is not mounted"
    watch.sentence = None
    assert login.state_of(watch, "sshd is not listening") == "sshd is not listening"
    assert login.state_of(watch, None) == node_state.READY


def test_only_a_listening_socket_counts() -> None:
    assert listening.listens(TABLE, 22)
    assert not listening.listens(TABLE, 8080)
    assert not listening.listens(TABLE.splitlines()[0], 22)
