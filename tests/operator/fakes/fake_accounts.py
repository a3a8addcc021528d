"""The part of the fake slurmrestd that concerns slurmdbd's QOS; accounts and users are a new cluster's own."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

_RECORDED = json.loads((Path(__file__).parents[1] / "recorded" / "accounts.json").read_text())
_NORMAL = next(qos for qos in _RECORDED["qos"]["qos"] if qos["name"] == "normal")
_ROOTS = [
    {**association, "qos": ["normal"]}
    for association in _RECORDED["associations"]["associations"]
    if (association["account"], association["cluster"]) == ("root", "test")
]


def answer(qos: dict[str, int], method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the answer's own part, with QOS as name → priority; None for a path that is not about accounts."""
    kind, _, name = path.removeprefix("/slurmdb/v0.0.45/").partition("/")
    if kind == "qos" and method == "DELETE":
        return {"removed_qos": [name] if qos.pop(name, None) is not None else []}
    if kind == "qos" and body:
        qos |= {said["name"]: said.get("priority", {"number": 0})["number"] for said in body["qos"]}
        return {}
    listed = {
        "qos": [_shown(name, priority) for name, priority in qos.items()],
        "accounts": [account for account in _RECORDED["accounts"]["accounts"] if account["name"] == "root"],
        "associations": _ROOTS,
    }
    return {kind: listed[kind]} if kind in listed else None


def _shown(name: str, priority: int) -> dict[str, Any]:
    record: dict[str, Any] = copy.deepcopy(_NORMAL)
    record["priority"]["number"] = priority
    return {**record, "name": name}
