"""Generic resources of a node in one spelling: slurmctld shows others than slurmd registered."""

from __future__ import annotations

import re

_SOCKETS = re.compile(r"\([^)]*\)")
_RESOURCE = re.compile(r"(?P<name>[^:]+)(?::(?P<type>[^:]+))?:(?P<count>\d+)(?P<suffix>[KMGTP]?)")
_SHARED = frozenset({"shard", "mps"})
_SUFFIXES = {suffix: 1024**power for power, suffix in enumerate(("", "K", "M", "G", "T", "P"))}


def canonical(gres: str) -> str:
    """Return the same resources, sorted, with plain counts.

    slurmctld adds the sockets at which it found devices, and writes 4096 as 4K (gres.conf(5)). Shards and MPS, which
    slurmd registers without a type, get the types of the GPUs that they share: they count together here.
    """
    counts: dict[str, int] = {}
    for resource in filter(None, _SOCKETS.sub("", gres).split(",")):
        match = _RESOURCE.fullmatch(resource)
        if not match:
            return gres
        typed = match["type"] and match["name"] not in _SHARED
        name = f"{match['name']}:{match['type']}" if typed else match["name"]
        counts[name] = counts.get(name, 0) + int(match["count"]) * _SUFFIXES[match["suffix"]]
    return ",".join(f"{name}:{counts[name]}" for name in sorted(counts))
