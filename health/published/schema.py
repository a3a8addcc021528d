"""The JSON schema of a report, docs/health-verdict.schema.json, made of the models."""

import json
from pathlib import Path
from typing import Any

from node_health import report
from node_health.verdict import Action, Verdict
from pydantic import BaseModel, ConfigDict, Field

from contract.reasons import Check

FILE = Path(__file__).parents[2] / "docs" / "health-verdict.schema.json"


class CheckVerdict(BaseModel):
    """One check's verdict."""

    model_config = ConfigDict(extra="forbid")

    check: Check = Field(description="Name of the check, as in a drain's reason.")
    verdict: Verdict = Field(description="UNKNOWN: the check could not look, which never counts as PASS.")
    evidence: str = Field(description="What was measured, one sentence.")
    remedy: str = Field(description="What a person does about it; empty for PASS.")
    action: Action = Field(description="The same in the words of NVIDIA's Xid catalog.")
    seconds: float = Field(ge=0, description="How long it took, with the checks that share its source.")


class SkippedCheck(BaseModel):
    """A check that was not made."""

    model_config = ConfigDict(extra="forbid")

    check: Check
    why: str = Field(description="It does not apply to this machine, or was switched off.")


class NodeHealth(BaseModel):
    """Output of `node-health --json`."""

    model_config = ConfigDict(extra="forbid")

    version: int = Field(json_schema_extra={"const": report.VERSION}, description="Version of this schema.")
    time: float = Field(description="When the checks ended, in seconds since the epoch.")
    seconds: float = Field(ge=0, description="How long the run took.")
    verdict: Verdict = Field(description="The worst verdict of all.")
    checks: list[CheckVerdict]
    skipped: list[SkippedCheck]


def schema() -> dict[str, Any]:
    """Returns the JSON schema of `node-health --json`."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **NodeHealth.model_json_schema()}


def text() -> str:
    """Returns the content of docs/health-verdict.schema.json."""
    return json.dumps(schema(), indent=2) + "\n"
