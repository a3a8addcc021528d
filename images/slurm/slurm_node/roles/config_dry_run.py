"""The config dry run: starts a real slurmctld with a new configuration, apart from the cluster.

That slurmctld has no job, node, database or state, and only a key of its own. Network policies allow no connection but
the operator's request. Accounting is left out: slurmctld would register with slurmdbd under the cluster's name. So
settings that only slurmdbd can refuse are not tried.
"""

import contextlib
import http.server
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from contract import names
from slurm_node.pod import paths
from slurm_node.pod.log import NodeError, say
from slurm_node.slurm import configless_cache, slurmdbd_fallback

DEADLINE_SECONDS = 20.0
"""A real slurmctld read a configuration in 0.3 s. The rest is for busy cores."""
MOST_BYTES = 4 << 20
"""A ConfigMap holds at most 1 MiB. In JSON a byte may take several."""
_UP = "Running as primary controller"
_TROUBLE = re.compile(r"\b(error|fatal): (.+)")
_OF_NO_USE = re.compile(r"Job accounting information gathered|can only be used with SlurmDBD|High latency for")
"""Complaints of a slurmctld without accounting, or on busy cores, about any configuration."""
_MOST_WORDS = 8
_FILE_NAME = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.]*")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer of slurmctld to a configuration.

    Attributes:
        accepted: whether it started.
        words: its own complaints, which it may also have after a start.
    """

    accepted: bool
    words: str


def main() -> int:
    """Answers the operator's requests, one at a time, until the pod ends."""
    server = http.server.HTTPServer(("", names.CONFIG_DRY_RUN_PORT), _Handler)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    say(f"config dry runs are taken on port {names.CONFIG_DRY_RUN_PORT}")
    server.serve_forever()
    return 0


class _Handler(http.server.BaseHTTPRequestHandler):
    timeout = 10.0

    def do_POST(self) -> None:
        """Takes {"files": {name: text}} and answers {"accepted": …, "words": …}."""
        try:
            length = int(self.headers.get("Content-Length", "0"))
            if length > MOST_BYTES:
                raise NodeError(f"{length} bytes are more than a configuration has")
            verdict = dry_run(_files(self.rfile.read(length)))
        except NodeError as error:
            self._answer(http.HTTPStatus.BAD_REQUEST, {"error": str(error)})
            return
        self._answer(http.HTTPStatus.OK, asdict(verdict))

    def _answer(self, status: http.HTTPStatus, content: dict[str, object]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing: each dry run logs its own line."""


def dry_run(files: dict[str, str]) -> Verdict:
    """Starts slurmctld with a copy of a configuration in a temporary folder, and ends it.

    Args:
        files: name → text, as slurmctld would find them in /etc/slurm.

    Raises:
        NodeError: the dry run itself failed, which says nothing about the configuration.
    """
    if names.SLURM_CONF not in files:
        return Verdict(False, "there is no slurm.conf")
    # slurmctld serves these files without reading them, and nodes that find this in them take no jobs.
    if sentence := configless_cache.refusal(files):
        return Verdict(False, sentence)
    # slurmctld requires that folder for its socket.
    scratch = Path(tempfile.mkdtemp(dir=paths.CONTROLLER_RUN))
    try:
        prepare(files, scratch)
        lines, ended = _start(scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    verdict = judge([line.replace(f"{scratch}/etc/", "") for line in lines], ended=ended)
    say(f"dry run: {'accepted' if verdict.accepted else 'refused'} {verdict.words}".rstrip())
    return verdict


def prepare(files: dict[str, str], scratch: Path) -> None:
    """Writes the copy, and the keys and folders that the dry run needs.

    Args:
        files: name → text.
        scratch: an empty folder.
    """
    folder, state = scratch / "etc", scratch / "state"
    folder.mkdir()
    state.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / names.SLURM_CONF).write_text(alone(files[names.SLURM_CONF], scratch))
    for key in (names.SLURM_KEY, names.JWT_KEY):
        file = scratch / key
        file.touch(0o600)
        file.write_bytes(secrets.token_bytes(64))


def alone(slurm_conf: str, scratch: Path) -> str:
    """Returns slurm.conf for a slurmctld without a cluster: on this host, without accounting, with its own paths."""
    values = {
        "SlurmctldHost": f"{socket.gethostname()}(127.0.0.1)",
        "StateSaveLocation": str(scratch / "state"),
        "SlurmctldPidFile": str(scratch / "slurmctld.pid"),
        "AuthAltParameters": f"jwt_key={scratch / 'jwt.key'}",
    }
    own = {key.lower(): f"{key}={value}" for key, value in values.items()}
    lines = []
    for line in lines_without_accounting(slurm_conf):
        key = line.partition("=")[0].strip().lower()
        lines.append(own.pop(key) if key in own else line)
    return "\n".join([*lines, *own.values()]) + "\n"


def lines_without_accounting(slurm_conf: str) -> list[str]:
    """Returns the lines, those that need slurmdbd emptied, so that slurmctld's line numbers stay right."""
    return [slurmdbd_fallback.without_accounting(f"{line}\n").rstrip("\n") for line in slurm_conf.splitlines()]


def _start(scratch: Path) -> tuple[list[str], bool]:
    """Runs slurmctld until it is up or has ended; returns its lines, and whether it ended by itself."""
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("SLURM")},
        "SLURM_CONF": str(scratch / f"etc/{names.SLURM_CONF}"),
        "SLURM_SACK_KEY": str(scratch / names.SLURM_KEY),
        "RUNTIME_DIRECTORY": str(paths.CONTROLLER_RUN),
    }
    log = scratch / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            # -v: it then logs that it is up, whatever log level the configuration sets.
            [slurmdbd_fallback.SLURMCTLD, "-D", "-v", "-c"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=scratch,
            start_new_session=True,
        )
    try:
        return _watch(process, log)
    finally:
        # Together with its script helper, so that nothing is left for the next dry run.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _watch(process: "subprocess.Popen[bytes]", log: Path) -> tuple[list[str], bool]:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        ended = process.poll() is not None
        lines = log.read_text(errors="replace").splitlines()
        if ended or any(_UP in line for line in lines):
            return lines, ended
        time.sleep(0.05)
    raise NodeError(f"slurmctld was neither up nor had it ended after {DEADLINE_SECONDS:.0f} s")


def judge(lines: list[str], *, ended: bool) -> Verdict:
    """Concludes from slurmctld's log.

    Args:
        lines: what it said.
        ended: whether it ended by itself instead of running.
    """
    troubles = [match for match in map(_TROUBLE.search, lines) if match and not _OF_NO_USE.search(match[2])]
    words = list(dict.fromkeys(match[2].strip() for match in troubles))
    if ended and not words:
        words = lines[-1:] or ["slurmctld ended without a word"]
    return Verdict(not ended, "; ".join(words[-_MOST_WORDS:]))


def _files(body: bytes) -> dict[str, str]:
    try:
        files = json.loads(body)["files"]
        wrong = [name for name, text in files.items() if not _FILE_NAME.fullmatch(name) or not isinstance(text, str)]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise NodeError(f"the question is no JSON with files: {error}") from error
    if wrong:
        raise NodeError(f"no names of files: {', '.join(map(repr, wrong))}")
    return dict(files)
