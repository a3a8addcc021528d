"""Fake GPUs: a device plugin for the dev cluster's kubelet, run as `python -m devcluster.fakes.gpus DEVICES_FOLDER`.

It shares with NVIDIA's: the resource's name, the kubelet's gRPC API in both directions, and device files with distinct
numbers that really open. A container gets exactly its allocated devices, by DeviceSpecs. So a device cgroup has devices
to allow and to refuse. It also mounts a fake nvidia-smi and NVML into the container, as NVIDIA's container toolkit does
with real ones. A fake dcgmi comes with them. What is wrong with the GPUs stands in a scenario file (gpu_scenario.py).

It has no driver, no CUDA, and computes nothing. The devices are unattached loop devices of this machine, named
/dev/fakegpu<number>. So nobody takes them for real ones. Slurm's AutoDetect does not see them (nodeSets[].gpus.devices
names them).
"""

from __future__ import annotations

import os
import platform
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc  # type: ignore[import-untyped]  # grpc ships no types

from devcluster.fakes import device_plugin_api as api
from devcluster.fakes import gpu_scenario

RESOURCE: Final = "nvidia.com/gpu"
COUNT: Final = 8
MAJOR: Final = 7  # Documentation/admin-guide/devices.txt: loopback devices.
OWN_SOCKET: Final = "fake-gpus.sock"
CONTAINER_PATH: Final = "/dev/fakegpu"
NVML: Final = "libnvidia-ml.so.1"
IN_CONTAINERS: Final = {
    "nvidia-smi": "/usr/bin/nvidia-smi",
    "dcgmi": "/usr/bin/dcgmi",
    NVML: f"/usr/lib/{platform.machine()}-linux-gnu/{NVML}",
}
"""File of the node → its place in a container."""
NATIVE: Final = Path(__file__).resolve().parents[2] / "native"
BUILD_SECONDS: Final = 120
MODE: Final = 0o666  # Like real ones: a job's user may open them, and the device cgroup decides.
PERMISSIONS: Final = "rwm"
"""Access rights, as the Container Device Interface gives them.

On cgroup v1 Slurm allows a job its device by a line with all three. The kernel accepts that only if the pod's own line
has them.
"""
POLL_SECONDS: Final = 0.5
REGISTER_SECONDS: Final = 5


@dataclass(frozen=True, slots=True)
class FakeGpu:
    """One device.

    Attributes:
        index: Its number on the node; part of its id and of its path in containers.
        file: The device file on the node.
    """

    index: int
    file: Path

    @property
    def id(self) -> str:
        """Its id for the kubelet."""
        return f"fake-gpu-{self.index}"

    @property
    def container_path(self) -> str:
        """Its path in a container."""
        return f"{CONTAINER_PATH}{self.index}"


def free_minors(blocks: Path = Path("/sys/block")) -> list[int]:
    """Return the loop devices of this machine, from the last on, to which no file is attached."""
    numbers = [int(folder.name.removeprefix("loop")) for folder in blocks.glob("loop[0-9]*")]
    return [
        number for number in sorted(numbers, reverse=True) if not (blocks / f"loop{number}/loop/backing_file").exists()
    ]


def make(folder: Path, minors: Iterable[int]) -> list[FakeGpu]:
    """Make the device files, and keep those that open.

    Args:
        folder: Where; on a file system that is not mounted nodev.
        minors: Loop devices in order of preference.
    """
    folder.mkdir(exist_ok=True)
    made: list[FakeGpu] = []
    for minor in minors:
        if len(made) == COUNT:
            break
        file = folder / f"gpu{len(made)}"
        file.unlink(missing_ok=True)
        os.mknod(file, stat.S_IFBLK | MODE, os.makedev(MAJOR, minor))
        file.chmod(MODE)
        try:
            os.close(os.open(file, os.O_RDONLY))
        except OSError as error:
            print(f"loop device {minor} does not open: {error.strerror}", flush=True)
            continue
        made.append(FakeGpu(len(made), file))
    return made


def make_driver(folder: Path) -> None:
    """Make the fake programs and the fake NVML that containers get.

    Raises:
        subprocess.SubprocessError: The compiler failed.
    """
    for name in IN_CONTAINERS.keys() & gpu_scenario.PROGRAMS.keys():
        shutil.copy(gpu_scenario.PROGRAMS[name], folder / name)
    command = ["make", "-s", "-C", str(NATIVE), f"OUT={folder}", str(folder / NVML)]
    subprocess.run(command, check=True, timeout=BUILD_SECONDS)


def allocation(devices: Mapping[str, FakeGpu], request: Any, driver: Path) -> Any:
    """Return the answer to Allocate: each container gets the files of its own devices only, and the fake driver.

    Raises:
        KeyError: A device is not ours.
    """
    answer = api.message("AllocateResponse")()
    for container in request.container_requests:
        response = answer.container_responses.add()
        for name, path in IN_CONTAINERS.items():
            response.mounts.add(container_path=path, host_path=str(driver / name), read_only=True)
        for device in (devices[identity] for identity in container.devices_ids):
            response.devices.add(
                container_path=device.container_path, host_path=str(device.file), permissions=PERMISSIONS
            )
    return answer


class Plugin:
    """The plugin's side of the API."""

    def __init__(self, devices: Iterable[FakeGpu], driver: Path) -> None:
        """Does nothing until it is served.

        Args:
            devices: What it offers.
            driver: Folder of the fake driver, on the node.
        """
        self._driver = driver
        self._devices = {device.id: device for device in devices}
        self._ended = threading.Event()

    def options(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Answer GetDevicePluginOptions: there are none."""
        return api.message("DevicePluginOptions")()

    def watch(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        """Answer ListAndWatch: all devices, healthy, once; then the stream stays open."""
        answer = api.message("ListAndWatchResponse")()
        for device in self._devices.values():
            answer.devices.add(ID=device.id, health=api.HEALTHY)
        yield answer
        while context.is_active() and not self._ended.wait(POLL_SECONDS):
            pass

    def allocate(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Answer Allocate."""
        try:
            answer = allocation(self._devices, request, self._driver)
        except KeyError as unknown:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no such fake GPU: {unknown}")
        for container in request.container_requests:
            print(f"allocated {', '.join(container.devices_ids)}", flush=True)
        return answer

    def serve(self, socket: Path) -> grpc.Server:
        """Start answering on a socket."""
        handlers = {
            "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(self.options, *_codec("Empty")),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(self.watch, *_codec("Empty")),
            "Allocate": grpc.unary_unary_rpc_method_handler(self.allocate, *_codec("AllocateRequest")),
        }
        server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(api.SERVICE, handlers),))
        server.add_insecure_port(f"unix://{socket}")
        server.start()
        return server

    def end(self) -> None:
        """Let open streams end."""
        self._ended.set()


def _codec(request: str) -> tuple[Any, Any]:
    return api.message(request).FromString, lambda answer: answer.SerializeToString()


def register(sockets: Path) -> None:
    """Tell the kubelet of the plugin.

    Raises:
        grpc.RpcError: The kubelet does not answer, or refuses.
    """
    request = api.message("RegisterRequest")(version=api.VERSION, endpoint=OWN_SOCKET, resource_name=RESOURCE)
    with grpc.insecure_channel(f"unix://{sockets / api.KUBELET_SOCKET}") as channel:
        call = channel.unary_unary(
            api.REGISTER,
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=api.message("Empty").FromString,
        )
        call(request, timeout=REGISTER_SECONDS)


def run(devices: list[FakeGpu], sockets: Path, driver: Path) -> None:
    """Serve for ever. A kubelet that starts deletes every plugin's socket, and each plugin registers again."""
    own, kubelet = sockets / OWN_SOCKET, sockets / api.KUBELET_SOCKET
    while True:
        while not kubelet.exists():
            time.sleep(POLL_SECONDS)  # The kubelet tells by this file alone.
        own.unlink(missing_ok=True)
        plugin = Plugin(devices, driver)
        server = plugin.serve(own)
        try:
            register(sockets)
            print(f"registered {len(devices)} fake GPUs as {RESOURCE}", flush=True)
            while own.exists():
                time.sleep(POLL_SECONDS)  # It removes the file when it starts, and tells no more.
            print("the kubelet started again: registering again", flush=True)
        except grpc.RpcError as error:
            print(f"the kubelet did not take the plugin: {error}", flush=True)
            time.sleep(POLL_SECONDS)
        finally:
            plugin.end()
            server.stop(grace=None).wait()


def main() -> None:
    """Offer fake GPUs, whose files are made in the folder named by the argument."""
    folder = Path(sys.argv[1])
    devices = make(folder, free_minors())
    make_driver(folder)
    if len(devices) < COUNT:
        print(f"only {len(devices)} of {COUNT} fake GPUs: this machine has too few free loop devices", flush=True)
    run(devices, Path(api.SOCKETS), folder)


if __name__ == "__main__":
    main()
