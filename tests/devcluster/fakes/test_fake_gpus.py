"""Fake GPUs have in common with real ones: the resource, kubelet's API, devices that open and differ, DeviceSpecs."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import threading
from concurrent import futures
from pathlib import Path

import grpc
import pytest
from node_health.check import Machine
from node_health.sources import nvidia_smi

from devcluster.fakes import device_plugin_api as api
from devcluster.fakes import gpu_scenario, gpus

SECONDS = 30


class Kubelet:
    """The kubelet's side: it takes registrations on kubelet.sock."""

    def __init__(self, sockets: Path) -> None:
        self.sockets = sockets
        self.registered: list[object] = []
        self._heard = threading.Condition()
        self._server: grpc.Server | None = None

    def start(self) -> None:
        """As a kubelet that starts: every socket in the folder goes first."""
        for file in self.sockets.glob("*.sock"):
            file.unlink()
        self._server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
        register = grpc.unary_unary_rpc_method_handler(
            self._register, api.message("RegisterRequest").FromString, lambda answer: answer.SerializeToString()
        )
        handler = grpc.method_handlers_generic_handler("v1beta1.Registration", {"Register": register})
        self._server.add_generic_rpc_handlers((handler,))
        self._server.add_insecure_port(f"unix://{self.sockets / 'kubelet.sock'}")
        self._server.start()

    def stop(self) -> None:
        if self._server:
            self._server.stop(grace=None).wait()

    def _register(self, request, context):
        with self._heard:
            self.registered.append(request)
            self._heard.notify_all()
        return api.message("Empty")()

    def wait_for_registration(self, count: int):
        with self._heard:
            assert self._heard.wait_for(lambda: len(self.registered) >= count, SECONDS)
        return self.registered[count - 1]

    def call(self, method: str, request: str, answer: str):
        channel = grpc.insecure_channel(f"unix://{self.sockets / gpus.OWN_SOCKET}")
        kind = channel.unary_stream if method == "ListAndWatch" else channel.unary_unary
        return kind(
            f"/{api.SERVICE}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=api.message(answer).FromString,
        )


@pytest.fixture
def devices(tmp_path: Path) -> list[gpus.FakeGpu]:
    if os.geteuid() != 0:
        pytest.skip("device files take root")
    made = gpus.make(tmp_path / "devices", gpus.free_minors())
    assert len(made) == gpus.COUNT, "this machine has too few free loop devices"
    return made


@pytest.fixture
def kubelet(tmp_path: Path, devices: list[gpus.FakeGpu]):
    kubelet = Kubelet(tmp_path)
    kubelet.start()
    threading.Thread(target=gpus.run, args=(devices, tmp_path, tmp_path / "driver"), daemon=True).start()
    yield kubelet
    kubelet.stop()


def test_the_devices_are_distinct_and_every_one_opens(devices):
    assert len({file.file.stat().st_rdev for file in devices}) == gpus.COUNT
    for each in devices:
        os.close(os.open(each.file, os.O_RDWR))
        assert each.file.stat().st_mode & 0o777 == 0o666


def test_a_loop_device_in_use_is_nobodys_gpu(tmp_path):
    for minor, files in ((0, []), (1, ["loop/backing_file"]), (2, [])):
        (tmp_path / f"loop{minor}/loop").mkdir(parents=True)
        for file in files:
            (tmp_path / f"loop{minor}" / file).touch()
    assert gpus.free_minors(tmp_path) == [2, 0]


def test_the_plugin_registers_the_resource_of_the_real_one_again_after_each_start_of_the_kubelet(kubelet):
    request = kubelet.wait_for_registration(1)
    assert (request.version, request.resource_name, request.endpoint) == (
        "v1beta1", "nvidia.com/gpu", "fake-gpus.sock",
    )  # fmt: skip
    kubelet.stop()
    kubelet.start()
    assert kubelet.wait_for_registration(2).resource_name == "nvidia.com/gpu"


def test_the_kubelet_is_told_of_each_device_once(kubelet, devices):
    kubelet.wait_for_registration(1)
    stream = kubelet.call("ListAndWatch", "Empty", "ListAndWatchResponse")(api.message("Empty")(), timeout=SECONDS)
    listed = next(iter(stream)).devices
    assert [(each.ID, each.health) for each in listed] == [(each.id, "Healthy") for each in devices]
    stream.cancel()


def test_allocate_gives_a_container_the_files_of_its_devices_and_no_other(kubelet, devices):
    kubelet.wait_for_registration(1)
    request = api.message("AllocateRequest")()
    request.container_requests.add(devices_ids=["fake-gpu-2", "fake-gpu-0"])
    answer = kubelet.call("Allocate", "AllocateRequest", "AllocateResponse")(request, timeout=SECONDS)
    (container,) = answer.container_responses
    assert [(spec.container_path, spec.host_path, spec.permissions) for spec in container.devices] == [
        ("/dev/fakegpu2", str(devices[2].file), "rwm"),
        ("/dev/fakegpu0", str(devices[0].file), "rwm"),
    ]
    driver = kubelet.sockets / "driver"
    assert {mount.container_path: mount.host_path for mount in container.mounts} == {
        "/usr/bin/nvidia-smi": f"{driver}/nvidia-smi",
        "/usr/bin/dcgmi": f"{driver}/dcgmi",
        f"/usr/lib/{platform.machine()}-linux-gnu/libnvidia-ml.so.1": f"{driver}/libnvidia-ml.so.1",
    }
    assert all(mount.read_only for mount in container.mounts)


def test_the_fake_driver_has_all_that_containers_get(tmp_path):
    gpus.make_driver(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == set(gpus.IN_CONTAINERS)
    assert ctypes.CDLL(str(tmp_path / gpus.NVML)).nvmlShutdown() == 0


def test_the_fake_nvidia_smi_answers_the_questions_that_node_health_and_long_checks_ask(tmp_path):
    smi = gpu_scenario.PROGRAMS["nvidia-smi"]
    assert smi.stat().st_mode & 0o111
    asked = nvidia_smi.ask(Machine(), str(smi))
    assert asked == nvidia_smi.Asked(6, "No devices were found"), "this machine has no fake GPUs of its own"

    def answer(option: str, **scenario) -> tuple[int, list[str]]:
        (tmp_path / "gpus").write_text(gpu_scenario.text(gpus=2, **scenario))
        environment = {**os.environ, "FAKE_GPUS": str(tmp_path / "gpus")}
        done = subprocess.run([smi, option], capture_output=True, text=True, check=False, env=environment)
        return done.returncode, done.stdout.splitlines()

    assert answer("-L") == (0, [f"GPU {number}: NVIDIA H100 80GB HBM3 (UUID: GPU-fake-{number})" for number in (0, 1)])
    assert answer("-L", modes={0: "fallen_off_bus", 1: "other_product"}) == (
        0,
        ["GPU 1: NVIDIA X1 (UUID: GPU-fake-1)"],
    )
    code, said = answer("-L", modes={1: "lost"})
    assert code == 15
    assert "GPU is lost" in said[-1]
    code, said = answer("-q")
    assert code == 2
    assert "fake" in said[0]


def test_a_device_that_the_plugin_does_not_have_is_refused(kubelet):
    kubelet.wait_for_registration(1)
    request = api.message("AllocateRequest")()
    request.container_requests.add(devices_ids=["fake-gpu-9"])
    with pytest.raises(grpc.RpcError) as refused:
        kubelet.call("Allocate", "AllocateRequest", "AllocateResponse")(request, timeout=SECONDS)
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND
