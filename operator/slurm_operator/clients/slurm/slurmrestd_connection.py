"""A connection to slurmrestd: every call has a deadline, and every failure is a typed error.

Seen with 26.05: a refused change answers 422 with `errors`. A slurmctld that is away answers 502 with error 1800. An
unchanged listing answers 304.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import httpx
import jwt

from contract import names, paths
from slurm_operator import metrics
from slurm_operator.clients.slurm import slurmrestd_answers as answers
from slurm_operator.clients.slurm.slurm_error import SlurmError, Trouble

DEADLINE_SECONDS = 5.0
LISTING_SECONDS = 30.0
"""Deadline of answers that grow with nodes and jobs. Only a slurmrestd that has answered before is asked for them."""
SILENT_SECONDS = 1.0
"""Deadline of small answers in the rest of a pass, after one did not come in time: the status waits for them."""
TOKEN_SECONDS = 240
NO_ANSWER = (httpx.HTTPError, httpx.InvalidURL, ExceptionGroup)
"""Errors that httpx raises, for an invalid URL, too; the group is anyio's, about a port beyond 65535."""

_A = TypeVar("_A", bound=answers.Answer)


class Connection:
    """A connection to one slurmrestd, with tokens of SlurmUser's."""

    def __init__(self, url: str, key_file: Path, authority: bytes | None = None) -> None:
        self.url = url
        self.authority = authority
        self._key_file = key_file
        self._client = httpx.AsyncClient(trust_env=False, verify=_trust(authority))
        self._token = ("", 0.0)
        self._silent: set[str] = set()
        """The APIs that did not answer in time in this pass, by their prefix."""

    def begin_pass(self) -> None:
        """Wait for answers as long as ever."""
        self._silent.clear()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _read(self, call: str, path: str) -> dict[str, Any]:
        """Read the whole of a small answer."""
        content = await self._fetch(call, path, {}, DEADLINE_SECONDS)
        return dict(answers.decoded(call, content, dict[str, Any])) if content else {}

    async def _read_as(
        self,
        kind: type[_A],
        call: str,
        path: str,
        params: Mapping[str, str] | None = None,
        seconds: float = DEADLINE_SECONDS,
    ) -> _A | None:
        """Read the fields of one kind of answer that decisions need; None for 'not modified'."""
        content = await self._fetch(call, path, params or {}, seconds)
        return None if content is None else answers.decoded(call, content, kind)

    async def _fetch(self, call: str, path: str, params: Mapping[str, str], seconds: float) -> bytearray | None:
        """Ask, and ask again if slurmrestd was away or refused the token. A call that waited long is not repeated."""
        api, began = _prefix(path), time.monotonic()
        if api in self._silent and seconds <= DEADLINE_SECONDS:
            content = await self._call(call, "GET", path, params=params, seconds=min(seconds, SILENT_SECONDS))
            self._silent.discard(api)
            return content
        try:
            return await self._call(call, "GET", path, params=params, seconds=seconds)
        except SlurmError as error:
            again = error.reason in (Trouble.UNREACHABLE, Trouble.FORBIDDEN)
            if not again or time.monotonic() - began > 2 * DEADLINE_SECONDS:
                raise
        self._token = ("", 0.0)
        await asyncio.sleep(0.2)  # A slurmrestd that starts again tells nobody.
        try:
            return await self._call(call, "GET", path, params=params, seconds=seconds)
        except SlurmError as error:
            if error.reason is Trouble.UNREACHABLE and time.monotonic() - began >= seconds:
                self._silent.add(api)
            raise

    async def _call(
        self,
        call: str,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
        seconds: float = DEADLINE_SECONDS,
    ) -> bytearray | None:
        try:
            with metrics.REST.labels(call).time():
                return answers.checked(call, *await self._request(method, path, body, params, seconds))
        except SlurmError as error:
            metrics.REST_ERRORS.labels(call, error.reason).inc()
            raise

    async def _request(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None,
        params: Mapping[str, str] | None,
        seconds: float,
    ) -> tuple[int, bytearray]:
        try:
            headers = {"X-SLURM-USER-TOKEN": self._user_token()}
            url = self.url + _prefix(path) + path
            asking = self._client.stream(method, url, params=params, json=body, headers=headers, timeout=seconds)
            content = bytearray()  # httpx would hold the whole twice: 25 MB of 5,000 nodes.
            # httpx limits each read; a server that drips bytes is stopped by the limit on the whole.
            async with asyncio.timeout(seconds), asking as answer:
                async for some in answer.aiter_bytes():
                    content += some
                return answer.status_code, content
        except (*NO_ANSWER, TimeoutError) as error:
            if distrust := _distrust(error):
                raise SlurmError(Trouble.UNTRUSTED, f"{self.url}: {self._whose_fault(distrust)}") from error
            what = "no answer in time" if isinstance(error, TimeoutError | httpx.TimeoutException) else str(error)
            raise SlurmError(Trouble.UNREACHABLE, f"{self.url}: {what or type(error).__name__}") from error
        except OSError as error:
            raise SlurmError(Trouble.FORBIDDEN, f"the key for tokens cannot be read: {error}") from error

    def _whose_fault(self, distrust: ssl.SSLCertVerificationError) -> str:
        if self.authority is None:
            return f"there is no CA in {paths.REST_AUTHORITY_FILE} to trust; is the Secret with the certificate there?"
        return f"its certificate is not trusted: {distrust.verify_message}"

    def _user_token(self) -> str:
        token, expires = self._token
        now = time.time()
        if now >= expires - TOKEN_SECONDS / 2:
            expires = now + TOKEN_SECONDS
            claims = {"iat": int(now) - 5, "exp": int(expires), "sun": names.SLURM_USER}
            token = jwt.encode(claims, self._key_file.read_bytes(), algorithm="HS256")
            self._token = (token, expires)
        return token


def _prefix(path: str) -> str:
    """Return what stands before a path of slurmctld's API; a path of slurmdbd's is whole."""
    return "" if path.startswith(names.REST_DATABASE_API) else names.REST_API


def _trust(authority: bytes | None) -> ssl.SSLContext:
    """Return a context that trusts one CA and no other. Broken text trusts nobody, and every call then says so."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # It checks certificate and host name, and knows no CA yet.
    with contextlib.suppress(ssl.SSLError, UnicodeDecodeError, ValueError):
        context.load_verify_locations(cadata=(authority or b"").decode())
    return context


def _distrust(error: BaseException) -> ssl.SSLCertVerificationError | None:
    """Return the refusal of a certificate among an error's causes; None without one."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    return cause
