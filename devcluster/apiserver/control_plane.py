"""etcd and kube-apiserver: their command lines, and an API server without a node for tests.

The command lines are pure functions, used by `ApiServer` here (loopback, no node) and by the instance's init.
"""

from __future__ import annotations

import contextlib
import errno
import http.client
import os
import random
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import IO, Self

from devcluster.apiserver import kubeconfigs
from devcluster.apiserver.pki import Authority, KeyPair, Subject
from devcluster.machine import go_programs

SERVICE_NETWORK = "10.96.0.0/16"
SERVICE_ADDRESS = "10.96.0.1"
ISSUER = "https://kubernetes.default.svc.cluster.local"
API_SERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
READY_SECONDS = 90
STOP_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Ports:
    """Ports of etcd and kube-apiserver."""

    etcd: int = 2379
    etcd_peer: int = 2380
    api: int = 6443


@dataclass(frozen=True, slots=True)
class Credentials:
    """Files of the authority for kube-apiserver."""

    authority: Path
    server: KeyPair
    kubelet_client: KeyPair
    service_accounts: KeyPair
    front_authority: Path
    front_proxy: KeyPair


def etcd_command(binary: Path, data: Path, ports: Ports) -> list[str]:
    """Return the command line of etcd, on loopback only."""
    client = f"http://127.0.0.1:{ports.etcd}"
    peer = f"http://127.0.0.1:{ports.etcd_peer}"
    return [
        str(binary),
        f"--data-dir={data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        # Without it each write waits for the disk. The process is killed at times, but the machine's page cache stays.
        # A dev cluster that loses power is made again.
        "--unsafe-no-fsync",
        "--quota-backend-bytes=2147483648",
        "--log-level=warn",
    ]


def api_server_command(binary: Path, credentials: Credentials, ports: Ports, *, bind: str, advertise: str) -> list[str]:
    """Return the command line of kube-apiserver.

    Args:
        binary: The program.
        credentials: Files of the authority.
        ports: Where it and its etcd listen.
        bind: The address it listens on.
        advertise: The address it is known by; not a loopback one where there are pods.
    """
    return [
        str(binary),
        f"--etcd-servers=http://127.0.0.1:{ports.etcd}",
        f"--bind-address={bind}",
        f"--secure-port={ports.api}",
        f"--advertise-address={advertise}",
        f"--service-cluster-ip-range={SERVICE_NETWORK}",
        f"--client-ca-file={credentials.authority}",
        # As kubeadm does: aggregated APIs know this server by a client certificate of an authority of its own.
        f"--requestheader-client-ca-file={credentials.front_authority}",
        f"--requestheader-allowed-names={FRONT_PROXY.user}",
        f"--proxy-client-cert-file={credentials.front_proxy.certificate}",
        f"--proxy-client-key-file={credentials.front_proxy.key}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--tls-cert-file={credentials.server.certificate}",
        f"--tls-private-key-file={credentials.server.key}",
        f"--kubelet-certificate-authority={credentials.authority}",
        f"--kubelet-client-certificate={credentials.kubelet_client.certificate}",
        f"--kubelet-client-key={credentials.kubelet_client.key}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--service-account-key-file={credentials.service_accounts.certificate}",
        f"--service-account-signing-key-file={credentials.service_accounts.key}",
        f"--service-account-issuer={ISSUER}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        # The reconciler does not know a node's address in another network namespace. The code that starts a node writes
        # the EndpointSlice of the kubernetes Service.
        "--endpoint-reconciler-type=none",
        "--profiling=false",
    ]


def credentials(authority: Authority, addresses: tuple[str, ...]) -> Credentials:
    """Issue kube-apiserver's certificates and keys, valid for these addresses of the server."""
    front = Authority(authority.certificate.parent / "front-proxy")
    return Credentials(
        authority=authority.certificate,
        server=authority.issue(
            "apiserver", Subject("kube-apiserver", names=API_SERVER_NAMES, addresses=(*addresses, SERVICE_ADDRESS))
        ),
        kubelet_client=authority.issue("admin", ADMIN),
        service_accounts=authority.service_account_keys(),
        front_authority=front.certificate,
        front_proxy=front.issue("front-proxy-client", FRONT_PROXY),
    )


ADMIN = Subject("admin", groups=("system:masters",))
FRONT_PROXY = Subject("front-proxy-client")


def wait_ready(url: str, authority: Authority, deadline: float, lives: Callable[[], bool] = lambda: True) -> None:
    """Wait until the API server says ready.

    Args:
        url: Of the API server.
        authority: Whose `admin` asks.
        deadline: In `time.monotonic()` seconds.
        lives: Whether the server still runs; it may raise an error with the reason if not.

    Raises:
        TimeoutError: with the last answer, when the deadline is over or the server has ended.
    """
    client = authority.issue("admin", ADMIN)
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.load_cert_chain(client.certificate, client.key)
    answer = "no answer yet"
    while time.monotonic() < deadline and lives():
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=5, context=context):  # noqa: S310 - our own URL
                return
        except urllib.error.HTTPError as error:
            answer = error.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            answer = str(error)
        time.sleep(0.1)  # A server that starts tells nobody.
    raise TimeoutError(f"{url}/readyz: not ready in time: {answer.strip()[-500:]}")


def free_ports(count: int) -> list[int]:
    """Return TCP ports of the loopback address that nobody listens on now.

    They lie below Linux's ports for connections (ip_local_port_range), where a free port may be taken a moment later.
    They are random, since parallel test runs all ask.
    """
    ports: list[int] = []
    for port in random.sample(range(10_000, 30_000), 20_000):
        with socket.socket() as candidate, contextlib.suppress(OSError):
            candidate.bind(("127.0.0.1", port))
            ports.append(port)
        if len(ports) == count:
            return ports
    raise OSError(errno.EADDRINUSE, "no free port between 10000 and 30000")


class ApiServer:
    """An API server without a node, on free loopback ports, for tests: `with ApiServer(state, binaries) as api`.

    No controller manager runs: nothing collects garbage, empties namespaces or makes service accounts. The admission
    that wants those accounts is off.

    Its programs end with the `with` block, and also when this process is killed (PDEATHSIG; so keep the thread that
    enters the block alive as long as it is used).

    Attributes:
        url: Of the API server.
        kubeconfig: Of an administrator.

    Raises:
        ChildProcessError: when one of its programs ends before it is ready, with what that said.
    """

    def __init__(self, state: Path, binaries: Path) -> None:
        self._state = state
        self._binaries = binaries
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._logs: list[IO[bytes]] = []
        self.kubeconfig = state / "kubeconfig"
        self.url = ""

    def __enter__(self) -> Self:
        self._state.mkdir(parents=True, exist_ok=True)
        ports = Ports(*free_ports(3))
        self.url = f"https://127.0.0.1:{ports.api}"
        authority = Authority(self._state / "pki")
        try:
            self._start("etcd", etcd_command(self._binaries / "etcd", self._state / "etcd", ports))
            command = api_server_command(
                self._binaries / "kube-apiserver",
                credentials(authority, ("127.0.0.1",)),
                ports,
                bind="127.0.0.1",
                advertise="127.0.0.1",
            )
            command.append("--disable-admission-plugins=ServiceAccount")
            self._start("kube-apiserver", command, go_programs.ENVIRONMENT)
            kubeconfigs.write(self.kubeconfig, self.url, authority.certificate, authority.issue("admin", ADMIN))
            wait_ready(self.url, authority, time.monotonic() + READY_SECONDS, self._lives)
            # Another server may have answered, on a port that was free a moment ago.
            self._lives()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()

    def _lives(self) -> bool:
        """Return whether etcd and kube-apiserver run. If one has ended, raise an error with its last line."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                words = (self._state / f"{name}.log").read_text(errors="replace").strip()[-500:]
                raise ChildProcessError(f"{name} ended with status {process.returncode}: {words}")
        return True

    def _start(self, name: str, command: list[str], variables: Mapping[str, str] = MappingProxyType({})) -> None:
        log = (self._state / f"{name}.log").open("wb")
        self._logs.append(log)
        self._processes[name] = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            # Ctrl-C goes to the test run, which then ends these in order.
            start_new_session=True,
            env={"PATH": os.environ.get("PATH", os.defpath), **variables},
        )

    def _stop(self) -> None:
        for process in reversed(self._processes.values()):
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for log in self._logs:
            log.close()
        self._processes.clear()
        self._logs.clear()
