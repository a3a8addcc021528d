"""Chooses Pulumi's Kubernetes plugin: the stand-in, or an installed one that the environment names."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import grpc  # type: ignore[import-untyped]  # grpc ships no types
from google.protobuf import empty_pb2  # type: ignore[import-untyped]  # protobuf ships no types
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from devcluster import standin

VARIABLE = standin.VARIABLE
STAND_IN = standin.FOLDER / "pulumi-resource-kubernetes"
_ANSWER_SECONDS = 20


class NoPlugin(Exception):
    """The variable names no Kubernetes plugin; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """An executable that the engine starts as `pulumi-resource-kubernetes`."""

    file: Path
    version: str
    is_stand_in: bool

    def __str__(self) -> str:
        name = "the stand-in of this checkout, in place of" if self.is_stand_in else f"{self.file},"
        return f"{name} pulumi-resource-kubernetes {self.version}"


def chosen(environment: Mapping[str, str]) -> Plugin:
    """Return the plugin that the environment names, else the stand-in.

    Raises:
        NoPlugin: It names something else.
    """
    named = environment.get(VARIABLE)
    if not named:
        return Plugin(STAND_IN, standin.VERSION, is_stand_in=True)
    file, remedy = Path(named).resolve(), "give the file of Pulumi's pulumi-resource-kubernetes, or leave it unset"
    if not file.is_file():
        raise NoPlugin(f"{VARIABLE}={named}: there is no such file; {remedy}")
    if not os.access(file, os.X_OK):
        raise NoPlugin(f"{VARIABLE}={named}: it is not executable; chmod +x it, or leave it unset")
    name, version = _introduced(named, file, remedy)
    if name != "kubernetes":
        raise NoPlugin(f"{VARIABLE}={named}: it is a plugin for {name}; {remedy}")
    if not version:
        raise NoPlugin(f"{VARIABLE}={named}: it tells no version; {remedy}")
    return Plugin(file, version, is_stand_in=False)


def _introduced(named: str, file: Path, remedy: str) -> tuple[str, str]:
    """Return the name and the version that a plugin reports of itself."""
    try:
        with _started(file) as port:
            options = [("grpc.max_receive_message_length", -1)]
            with grpc.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
                asked = provider_pb2_grpc.ResourceProviderStub(channel)
                version = asked.GetPluginInfo(empty_pb2.Empty(), timeout=_ANSWER_SECONDS).version
                schema = asked.GetSchema(provider_pb2.GetSchemaRequest(), timeout=_ANSWER_SECONDS).schema
                return str(json.loads(schema)["name"]), str(version)
    except (OSError, ValueError, KeyError, grpc.RpcError):
        raise NoPlugin(f"{VARIABLE}={named}: it does not answer as Pulumi's Kubernetes plugin does; {remedy}") from None


@contextlib.contextmanager
def _started(file: Path) -> Iterator[int]:
    """Context with the port of a running plugin, which it prints first. Its engine's address is a dummy."""
    process = subprocess.Popen(
        ["timeout", str(2 * _ANSWER_SECONDS), str(file), "127.0.0.1:9"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.communicate(timeout=_ANSWER_SECONDS)
