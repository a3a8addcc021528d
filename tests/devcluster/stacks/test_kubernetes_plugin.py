"""Values that `PULUMI_KUBERNETES_PLUGIN` may have."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from devcluster.stacks import kubernetes_plugin as plugin

NO_ANSWER = "it does not answer as Pulumi's Kubernetes plugin does"
PLUGIN = """#!{python}
import concurrent.futures, json
import grpc
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

class Plugin(provider_pb2_grpc.ResourceProviderServicer):
    def GetPluginInfo(self, request, context):
        return plugin_pb2.PluginInfo(version={version!r})

    def GetSchema(self, request, context):
        return provider_pb2.GetSchemaResponse(schema=json.dumps({schema!r}))

server = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
provider_pb2_grpc.add_ResourceProviderServicer_to_server(Plugin(), server)
port = server.add_insecure_port("127.0.0.1:0")
server.start()
print(port, flush=True)
server.wait_for_termination()
"""


def test_without_the_variable_the_stand_in_is_used() -> None:
    found = plugin.chosen({})
    assert found.is_stand_in
    assert str(found).startswith("the stand-in of this checkout, in place of pulumi-resource-kubernetes 4.")


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        (None, 0, "there is no such file; give the file of Pulumi's"),
        ("#!/bin/sh\n", 0o600, "it is not executable; chmod +x it"),
        ("#!/bin/sh\necho hello\n", 0o700, NO_ANSWER),
        ("#!/bin/sh\necho 9\n", 0o700, NO_ANSWER),
    ],
)
def test_what_is_no_plugin_is_told_in_one_sentence(tmp_path: Path, content: str | None, mode: int, words: str) -> None:
    file = tmp_path / "plugin"
    if content is not None:
        file.write_text(content)
        file.chmod(mode)
    with pytest.raises(plugin.NoPlugin) as told:
        plugin.chosen({plugin.VARIABLE: str(file)})
    assert str(told.value).startswith(f"PULUMI_KUBERNETES_PLUGIN={file}: {words}")


@pytest.mark.parametrize("name", ["pulumi-language-python", "pulumi-resource-pulumi-python"])
def test_a_program_of_pulumis_that_is_another_one_is_told_so(binaries: Path, name: str) -> None:
    with pytest.raises(plugin.NoPlugin, match=NO_ANSWER):
        plugin.chosen({plugin.VARIABLE: str(binaries / name)})


@pytest.fixture
def speaking(tmp_path: Path) -> Callable[[str, str], Path]:
    """Makes a plugin that gives a name and a version of itself."""

    def make(name: str, version: str) -> Path:
        file = tmp_path / "plugin"
        file.write_text(PLUGIN.format(python=sys.executable, schema={"name": name}, version=version))
        file.chmod(0o700)
        return file

    return make


@pytest.mark.parametrize(
    ("name", "version", "words"),
    [("aws", "1.0.0", "it is a plugin for aws; give"), ("kubernetes", "", "it tells no version; give")],
)
def test_another_plugin_is_told_in_one_sentence(
    speaking: Callable[[str, str], Path], name: str, version: str, words: str
) -> None:
    file = speaking(name, version)
    with pytest.raises(plugin.NoPlugin) as told:
        plugin.chosen({plugin.VARIABLE: str(file)})
    assert str(told.value).startswith(f"PULUMI_KUBERNETES_PLUGIN={file}: {words}")


def test_a_kubernetes_plugin_is_taken_with_its_version_and_ended(speaking: Callable[[str, str], Path]) -> None:
    file = speaking("kubernetes", "4.32.0")
    found = plugin.chosen({plugin.VARIABLE: str(file)})
    assert str(found) == f"{file}, pulumi-resource-kubernetes 4.32.0"
    assert not subprocess.run(["pgrep", "-f", str(file)], capture_output=True, check=False).stdout
