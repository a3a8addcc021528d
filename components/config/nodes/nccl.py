"""NCCL's variables for a fabric, by product, each with its source.

NCCL finds most settings by itself. These it can't know: the pods' interface, and what a cloud's switches need.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator

from components.config.values.validation import wrong

_POD_INTERFACE: Final = {"NCCL_SOCKET_IFNAME": "eth0"}
"""The interface that Kubernetes gives every pod; NCCL would favour one whose name starts with `ib`."""


class FabricProduct(StrEnum):
    """Kubernetes nodes with a known fabric. The names are this project's own."""

    INFINIBAND = "infiniband"
    COREWEAVE_INFINIBAND = "coreweave-infiniband"
    OCI_H100_ROCE = "oci-h100-roce"
    OCI_A100_ROCE = "oci-a100-roce"


@dataclass(frozen=True, slots=True)
class Fabric:
    """NCCL's settings for a product.

    Attributes:
        machines: The machines, in words.
        variables: NCCL's variables.
        source: Document that the values come from.
    """

    machines: str
    variables: Mapping[str, str]
    source: str


def _oci(adapters: str, **more: str) -> dict[str, str]:
    return {
        **_POD_INTERFACE,
        # `=` in front: these names and no others that start alike.
        "NCCL_IB_HCA": f"={adapters}",
        "NCCL_IB_GID_INDEX": "3",
        "NCCL_IB_TC": "41",
        "NCCL_IB_SL": "0",
        "NCCL_IB_TIMEOUT": "22",
        "NCCL_IB_SPLIT_DATA_ON_QPS": "0",
        **more,
    }


def _mlx5(*numbers: int) -> str:
    return ",".join(f"mlx5_{number}" for number in numbers)


_OCI_SOURCE: Final = "https://github.com/oracle-quickstart/oci-hpc-oke/blob/main/manifests/nccl-tests/kueue"
FABRICS: Final[Mapping[FabricProduct, Fabric]] = {
    FabricProduct.INFINIBAND: Fabric(
        "HGX and DGX A100, H100, H200 with native InfiniBand (HDR, NDR): adapters and rails are found by NCCL",
        _POD_INTERFACE,
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
    ),
    FabricProduct.COREWEAVE_INFINIBAND: Fabric(
        "CoreWeave's A100 and H100 machines: InfiniBand adapters are called ibp*, the others are the front end's",
        {**_POD_INTERFACE, "NCCL_IB_HCA": "ibp"},
        "https://docs.coreweave.com/products/networking/hpc-interconnect/nccl-configuration-reference",
    ),
    FabricProduct.OCI_H100_ROCE: Fabric(
        "Oracle's BM.GPU.H100.8: 16 ports of RoCE",
        _oci(
            _mlx5(0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15, 16, 17),
            NCCL_CUMEM_ENABLE="0",
            NCCL_IGNORE_CPU_AFFINITY="1",
        ),
        f"{_OCI_SOURCE}/BM.GPU.H100.8.yaml",
    ),
    FabricProduct.OCI_A100_ROCE: Fabric(
        "Oracle's BM.GPU.A100-v2.8: 16 ports of RoCE",
        _oci(
            _mlx5(1, 2, 3, 4, 5, 6, 7, 8, 14, 15, 16, 17, 9, 10, 11, 12),
            NCCL_IB_QPS_PER_CONNECTION="4",
        ),
        f"{_OCI_SOURCE}/BM.GPU.A100-v2.8.yaml",
    ),
}


def _variable(name: str) -> str:
    if not name.startswith("NCCL_") or not name.replace("_", "").isalnum() or name != name.upper():
        raise wrong("a variable of NCCL such as NCCL_IB_HCA: nccl.conf takes no others")
    return name


def _value(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise wrong("text or a whole number")
    text = str(value)
    if not text or not text.isprintable() or text != text.strip() or "#" in text:
        raise wrong("one value without spaces around it, `#` or newlines: it is a line of nccl.conf")
    return text


NcclVariable = Annotated[str, AfterValidator(_variable)]
NcclValue = Annotated[str, BeforeValidator(_value)]
