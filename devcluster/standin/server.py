"""The plugin's process: a gRPC server that the engine starts, and that ends with it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc  # type: ignore[import-untyped]  # grpc ships no types
import grpc.aio  # type: ignore[import-untyped]  # grpc ships no types
from pulumi.provider.experimental.property_value import PropertyValue
from pulumi.provider.experimental.server import ProviderServicer
from pulumi.runtime import proto
from pulumi.runtime._grpc_settings import _GRPC_CHANNEL_OPTIONS as CHANNEL_OPTIONS
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc, status_pb2

from devcluster.standin import VERSION, api, kubeconfig
from devcluster.standin.engine_log import EngineLog
from devcluster.standin.failures import PartialFailure, Refused
from devcluster.standin.provider import KubernetesProvider

_PARENT_LOOK_SECONDS: Final = 1.0
_EXPECTED: Final = (Refused, ValueError, api.ApiError, api.KindMissing, api.Unreachable, kubeconfig.KubeconfigError)


class Servicer(ProviderServicer):
    """The SDK's servicer, with one answer corrected."""

    async def DiffConfig(self, request: Any, context: Any) -> Any:  # noqa: N802  # the protocol's name
        """Answers with the enum of the protocol: the SDK's own method sends True where the engine reads `none`."""
        answer = await super().DiffConfig(request, context)  # type: ignore[no-untyped-call]  # the SDK has no types
        answer.changes = proto.DiffResponse.DIFF_SOME if answer.diffs else proto.DiffResponse.DIFF_NONE
        answer.hasDetailedDiff = False
        return answer


class PlainFailures(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # grpc has no types
    """Sends failures in the form that the engine keeps in its state, and in plain words without Python's own."""

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        """Wraps the method that a call is for."""
        handler = await continuation(details)
        if handler is None or handler.unary_unary is None:
            return handler
        method = handler.unary_unary

        async def guarded(request: Any, context: Any) -> Any:
            try:
                return await method(request, context)
            except PartialFailure as failure:
                await context.abort_with_status(_partial(failure))
            except grpc.aio.AbortError:
                raise
            except NotImplementedError as error:
                await context.abort(grpc.StatusCode.UNIMPLEMENTED, str(error))
            except Exception as error:  # Whatever it is: Pulumi shows it to a person.
                await context.abort(grpc.StatusCode.UNKNOWN, _words(error))

        return grpc.unary_unary_rpc_method_handler(
            guarded,
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )


def _words(error: Exception) -> str:
    if isinstance(error, _EXPECTED):
        return str(error)
    # A defect of the stand-in itself: its traceback helps more than its text.
    return "".join(traceback.format_exception(error))


def _partial(failure: PartialFailure) -> Any:
    detail = provider_pb2.ErrorResourceInitFailed(
        id=failure.identity,
        properties=PropertyValue.marshal_map(failure.properties),
        reasons=failure.reasons,
        inputs=PropertyValue.marshal_map(failure.read_inputs) if failure.read_inputs is not None else None,
    )
    status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=str(failure))
    status.details.add().Pack(detail)
    answer = grpc.Status()
    answer.code = grpc.StatusCode.UNKNOWN
    answer.details = str(failure)
    answer.trailing_metadata = (("grpc-status-details-bin", status.SerializeToString()),)
    return answer


async def _serve(engine: str) -> None:
    server = grpc.aio.server(options=CHANNEL_OPTIONS, interceptors=[PlainFailures()])
    servicer = Servicer([], VERSION, KubernetesProvider(EngineLog(engine)), engine_address=engine)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    interrupted = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupted.set)
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    await _until_engine_is_done(interrupted)
    await server.stop(grace=None)


async def _until_engine_is_done(interrupted: asyncio.Event) -> None:
    """Waits for the SIGINT by which an engine ends its plugins, after it has ended the operations by Cancel.

    A user's Ctrl-C is no such signal. It goes to the engine alone, which starts a plugin in a process group of its own.
    """
    parent = os.getppid()
    while not interrupted.is_set():
        # A killed engine sends no signal. Without this check, waits would go on unseen.
        if os.getppid() != parent:
            os._exit(1)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(interrupted.wait(), _PARENT_LOOK_SECONDS)


def main(arguments: list[str]) -> None:
    """Serves until the engine ends.

    Args:
        arguments: of the command line; the engine's address is the one that is no option.
    """
    engine = next((argument for argument in arguments if not argument.startswith("-")), None)
    if engine is None:
        sys.exit("pulumi-resource-kubernetes (stand-in) is started by pulumi, with the address of its engine")
    asyncio.run(_serve(engine))
