"""Parses Events about pods that Kubernetes refuses."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Any

from slurm_operator.decide.nodes.refused_pods import Refusal

_POD = re.compile(r"\bPod (\S+) in StatefulSet\b")
_WORDS = " failed error: "


def parse_refusal(event: Mapping[str, Any]) -> Refusal:
    """Parse an Event about a StatefulSet's pod."""
    message, pod = event.get("message") or "", _POD.search(event.get("message") or "")
    last = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"]["creationTimestamp"]
    words = message.partition(_WORDS)[2] or message
    return Refusal(event["involvedObject"]["name"], pod[1] if pod else "", words, datetime.datetime.fromisoformat(last))
