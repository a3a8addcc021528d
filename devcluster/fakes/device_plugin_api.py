"""The kubelet's device plugin API, v1beta1: its messages and paths.

The fields follow k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/api.proto, so that no .proto compiler is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf import (  # type: ignore[import-untyped]  # protobuf ships no types
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)

PACKAGE: Final = "v1beta1"
VERSION: Final = "v1beta1"
SOCKETS: Final = "/var/lib/kubelet/device-plugins"
"""Folder of kubelet.sock, on which the kubelet listens, and of the plugins' sockets; a constant of the API."""
KUBELET_SOCKET: Final = "kubelet.sock"
REGISTER: Final = f"/{PACKAGE}.Registration/Register"
SERVICE: Final = f"{PACKAGE}.DevicePlugin"
HEALTHY: Final = "Healthy"

_FIELD: Final = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {"string": _FIELD.TYPE_STRING, "bool": _FIELD.TYPE_BOOL}
_MESSAGES: Final[Mapping[str, Mapping[str, tuple[int, str]]]] = {
    # Message → field → number and type; [] after a type stands for `repeated`.
    "Empty": {},
    "DevicePluginOptions": {
        "pre_start_required": (1, "bool"),
        "get_preferred_allocation_available": (2, "bool"),
    },
    "RegisterRequest": {
        "version": (1, "string"),
        "endpoint": (2, "string"),
        "resource_name": (3, "string"),
        "options": (4, "DevicePluginOptions"),
    },
    "Device": {"ID": (1, "string"), "health": (2, "string")},
    "ListAndWatchResponse": {"devices": (1, "Device[]")},
    "ContainerAllocateRequest": {"devices_ids": (1, "string[]")},
    "AllocateRequest": {"container_requests": (1, "ContainerAllocateRequest[]")},
    "DeviceSpec": {
        "container_path": (1, "string"),
        "host_path": (2, "string"),
        "permissions": (3, "string"),
    },
    "Mount": {
        "container_path": (1, "string"),
        "host_path": (2, "string"),
        "read_only": (3, "bool"),
    },
    "ContainerAllocateResponse": {"mounts": (2, "Mount[]"), "devices": (3, "DeviceSpec[]")},
    "AllocateResponse": {"container_responses": (1, "ContainerAllocateResponse[]")},
}


def _pool() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="deviceplugin.proto", package=PACKAGE, syntax="proto3")
    for message, fields in _MESSAGES.items():
        described = file.message_type.add(name=message)
        for field, (number, kind) in fields.items():
            plain = kind.removesuffix("[]")
            label = _FIELD.LABEL_REPEATED if kind.endswith("[]") else _FIELD.LABEL_OPTIONAL
            added = described.field.add(name=field, number=number, label=label)
            if plain in _SCALARS:
                added.type = _SCALARS[plain]
            else:
                added.type, added.type_name = _FIELD.TYPE_MESSAGE, f".{PACKAGE}.{plain}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


_POOL: Final = _pool()


def message(name: str) -> Any:
    """Return the class of a message, such as AllocateRequest."""
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{PACKAGE}.{name}"))
