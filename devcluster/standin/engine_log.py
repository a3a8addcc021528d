"""Lines in the output of `pulumi up`: progress that replaces the line before it, and warnings that stay."""

from __future__ import annotations

import contextlib
from typing import Final

import grpc  # type: ignore[import-untyped]  # grpc ships no types
import grpc.aio  # type: ignore[import-untyped]  # grpc ships no types
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc

_DEADLINE_SECONDS: Final = 5.0


class EngineLog:
    """The engine's log."""

    def __init__(self, address: str) -> None:
        """Connects on first use.

        Args:
            address: of the engine, as it was given on the command line.
        """
        self._stub = engine_pb2_grpc.EngineStub(grpc.aio.insecure_channel(address))
        self._last: dict[str, str] = {}

    async def status(self, urn: str, message: str) -> None:
        """Shows where an operation stands, until the next such line of the same resource."""
        if self._last.get(urn) != message:
            self._last[urn] = message
            await self._send(engine_pb2.INFO, urn, message, ephemeral=True)

    async def clear(self, urn: str) -> None:
        """Takes the last status line away, if there was one."""
        if self._last.get(urn):
            await self.status(urn, "")

    async def warn(self, urn: str, message: str) -> None:
        """Shows a warning that stays."""
        await self._send(engine_pb2.WARNING, urn, message, ephemeral=False)

    async def _send(
        self, severity: engine_pb2.LogSeverity.ValueType, urn: str, message: str, *, ephemeral: bool
    ) -> None:
        request = engine_pb2.LogRequest(severity=severity, message=message, urn=urn, ephemeral=ephemeral)
        # An engine that no longer listens must not fail the operation itself.
        with contextlib.suppress(grpc.RpcError):
            await self._stub.Log(request, timeout=_DEADLINE_SECONDS)
