"""The report of a long check's job, beside its exit status: a small JSON object in the job's Comment.

`slurm-check-report` in the jail writes it, and the operator reads it. docs/long-check-report.schema.json is made of
this.
"""

from typing import Any, Final

MOST_BYTES: Final = 1_024
MOST_EVIDENCE: Final = 200
LARGEST: Final = 1e9
UNIT: Final = "^[A-Za-z0-9/%]{1,16}$(?!\\n)"
_LOOKS_LIKE_A_KEY: Final = (
    "[A-Za-z0-9+=_]{24}|-----BEGIN|([Pp]assword|PASSWORD|[Ss]ecret|SECRET|[Tt]oken|TOKEN) *[:=]|[Bb]earer "
)
"""Texts that look like a key or a password: drains' reasons are for everybody."""
EVIDENCE: Final = f"^(?!.*({_LOOKS_LIKE_A_KEY}))[ !#-Z^-~]{{1,{MOST_EVIDENCE}}}$(?!\\n)"
"""Printable ASCII without quotes, brackets and backslashes."""
_NUMBER: Final = {"type": "number", "minimum": 0, "maximum": LARGEST}
SCHEMA: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "LongCheckReport",
    "description": f"Comment of a long check's job, at most {MOST_BYTES} bytes. The job's exit status must agree.",
    "type": "object",
    "additionalProperties": False,
    "required": ["verdict"],
    "properties": {
        "verdict": {
            "description": "PASS and WARNING go with the exit status 0, UNKNOWN with 3, FAIL with another one.",
            "enum": ["PASS", "WARNING", "FAIL", "UNKNOWN"],
        },
        "measured": {"description": "What was measured, in the unit.", **_NUMBER},
        "least": {"description": "What it had to reach.", **_NUMBER},
        "unit": {"description": "Such as GB/s.", "type": "string", "pattern": UNIT},
        "evidence": {
            "description": "One sentence, of printable ASCII without quotes, brackets and backslashes. What looks like "
            "a key or a password is refused.",
            "type": "string",
            "pattern": EVIDENCE,
        },
    },
}
