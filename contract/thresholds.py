"""Keys of the numbers that health checks compare with, and their units: of health/thresholds and health.thresholds."""

from typing import Final

ANY: Final = "any"
"""In place of a product: what every machine has."""
PRODUCTS_BEGIN: Final = ("NVIDIA ", "Tesla ")
"""Starts of products' names, as the driver says them."""
OF_MACHINES: Final = {
    "clock.error": "ms",
    "cpu.steal": "percent",
    "cpu.throttled": "events per hour",
    "gpu.corrected": "errors per hour",
    "gpu.pcieReplays": "events per hour",
    "gpu.temperatureMargin": "degrees Celsius",
    "gpu.throttledSeconds": "seconds",
    "infiniband.errors": "errors per hour",
    "infiniband.flaps": "events per hour",
    "kernel.hungSeconds": "seconds",
    "kernel.processes": "percent",
    "memory.corrected": "errors per hour",
    "memory.leftovers": "percent",
    "network.errors": "errors per million packets",
    "network.flaps": "events per hour",
    "nvlink.errors": "errors per hour",
    "nvlink.recoveries": "events per hour",
}
OF_PRODUCTS: Final = {
    "gpu.pcieGeneration": "generation",
    "gpu.pcieWidth": "lanes",
    "gpu.powerLimit": "W",
    "gpu.smClock": "MHz",
    "infiniband.rate": "Gb/s",
    "nvlink.links": "links",
}
"""Of a product of GPUs."""
OF_LONG_CHECKS: Final = {
    "allReduce.bandwidth": "GB/s",
    "allReduce.message": "GiB",
    "nvbandwidth.host": "GB/s",
}
"""Of a product, too. Long checks compare with them (components/control/gpu_checks.py): whole numbers, as a shell
counts. A site says its own in `health.longChecks[].least`."""


def units(product: str) -> dict[str, str]:
    """Return the keys of a product's thresholds, with their units."""
    return OF_MACHINES if product == ANY else {**OF_PRODUCTS, **OF_LONG_CHECKS}
