"""The config dry run: starts a real slurmctld with a new configuration, apart from the cluster.

That slurmctld has no job, node, database or state, and only a key of its own. Network policies allow no connection but
the operator's request. It starts without accounting, as far as it gets. With accounting it starts a second time, until
it finds no slurmdbd: by then it has read those keys. A command of Slurm tries the script that only commands read.
Names that only the database knows, such as a QOS, are not tried.
"""

import contextlib
import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from contract import names
from slurm_node.pod import paths
from slurm_node.pod.log import NodeError, say
from slurm_node.slurm import configless_cache, dry_run_files, slurmdbd_fallback

DEADLINE_SECONDS = 20.0
"""A real slurmctld read a configuration in 0.3 s. The rest is for busy cores."""
MOST_BYTES = 4 << 20
"""A ConfigMap holds at most 1 MiB. In JSON a byte may take several."""
_UP = "Running as primary controller"
_NO_SLURMDBD = "Association database appears down"
_TROUBLE = re.compile(r"\b(error|fatal): (.+)")
_OF_NO_USE = re.compile(
    r"Job accounting information gathered|can only be used with SlurmDBD|High latency for"
    r"|failed to open persistent connection|Sending PersistInit msg|Association database appears down"
    r"|Cannot use AutoDetect on cloud/dynamic node|lookup failure for node"
)
"""Complaints of a slurmctld without slurmdbd or nodes, or on busy cores, about any configuration."""
_SBATCH = f"{paths.PREFIX}/bin/sbatch"
CLI_FILTER = "cli_filter.lua"
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
        verdict = _joined(_verdicts(files, scratch))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    say(f"dry run: {'accepted' if verdict.accepted else 'refused'} {verdict.words}".rstrip())
    return verdict


def _verdicts(files: Mapping[str, str], scratch: Path) -> Iterator[Verdict]:
    """Yields what each start says of the files."""
    folder = scratch / "alone"
    dry_run_files.prepare(files, folder)
    yield _start(folder, _UP)
    if CLI_FILTER in files:
        yield _command(folder)
    if dry_run_files.has_accounting(files):
        # A port that is bound and not listened on refuses connections.
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            dry_run_files.prepare(files, scratch / "accounted", closed.getsockname()[1])
            yield _start(scratch / "accounted", _NO_SLURMDBD)


def _joined(verdicts: Iterator[Verdict]) -> Verdict:
    """Returns the first refusal, or all complaints."""
    complaints: list[str] = []
    for verdict in verdicts:
        if not verdict.accepted:
            return verdict
        complaints += verdict.words.split("; ") if verdict.words else []
    return Verdict(True, "; ".join(dict.fromkeys(complaints)))


def _start(folder: Path, word: str) -> Verdict:
    """Runs slurmctld with a folder's files until it says a word, or has ended."""
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            # -v: it then logs that it is up, whatever log level the configuration sets.
            [slurmdbd_fallback.SLURMCTLD, "-D", "-v", "-c"],
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            start_new_session=True,
        )
    try:
        lines, ended = _watch(process, log, word)
    finally:
        # Together with its script helper, so that nothing is left for the next dry run.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return judge(_without_folder(lines, folder), ended=ended)


def _command(folder: Path) -> Verdict:
    """Has sbatch load the script of the commands; it then prints its usage, and asks nobody for anything."""
    try:
        done = subprocess.run(
            [_SBATCH, "--usage"],
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=folder,
            timeout=DEADLINE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise NodeError(f"sbatch had not loaded {CLI_FILTER} after {DEADLINE_SECONDS:.0f} s") from error
    lines = done.stderr.decode(errors="replace").splitlines()
    return judge(_without_folder(lines, folder), ended=done.returncode != 0)


def _environment(folder: Path) -> dict[str, str]:
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith("SLURM")},
        "SLURM_CONF": str(folder / f"etc/{names.SLURM_CONF}"),
        "SLURM_SACK_KEY": str(folder / names.SLURM_KEY),
        "RUNTIME_DIRECTORY": str(paths.CONTROLLER_RUN),
    }


def _without_folder(lines: list[str], folder: Path) -> list[str]:
    return [line.replace(f"{folder}/etc/", "") for line in lines]


def _watch(process: "subprocess.Popen[bytes]", log: Path, word: str) -> tuple[list[str], bool]:
    """Returns slurmctld's lines until it said the word or had ended, and whether it ended by itself."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        ended = process.poll() is not None
        lines = log.read_text(errors="replace").splitlines()
        said = next((number for number, line in enumerate(lines, 1) if word in line), 0)
        if said:
            return lines[:said], False
        if ended:
            return lines, True
        time.sleep(0.05)  # slurmctld tells by its log alone that it is up.
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
