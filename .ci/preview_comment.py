"""The text of a pull request's comment about a preview: preview_comment.py STACK OUTCOME PREVIEW COMMENT.

Standard library only. It reads what `pulumi preview --diff` printed and writes Markdown.
"""

import re
import sys
from itertools import takewhile
from pathlib import Path

LONGEST = 60_000
"""Characters of the preview that are shown; GitHub takes 65,536 in a comment."""
_CUT = "\n… the rest is in the log of this check"


def summary(outcome: str, preview: str) -> str:
    """The counts at the end of a preview, as one line. A failed preview has them as far as it came."""
    if outcome != "success":
        return "**The preview failed.** Its errors:"
    lines = [line.strip() for line in preview.splitlines()]
    heads = [index for index, line in enumerate(lines) if line == "Resources:"]
    counts = lines[heads[-1] + 1 :] if heads else []
    return ", ".join(takewhile(bool, counts)) or "no changes"


def changes(preview: str) -> list[str]:
    """Each object that changes, as a line: `~ kubernetes:core/v1:ConfigMap slurm-config`."""
    found = re.findall(r"^ *([-+~]+) ?(\S+): \(\S+\)\n(?: *\[.*\]\n)*? *\[urn=\S*::(\S+)\]$", preview, re.MULTILINE)
    return [f"{sign} {kind} {name}" for sign, kind, name in found]


def comment(stack: str, outcome: str, preview: str) -> str:
    """The comment.

    Args:
        stack: Name of the stack.
        outcome: What GitHub says of the preview's step; `success`, or something worse.
        preview: What Pulumi printed.
    """
    # The objects first, since the plan of many new objects is longer than a comment may be.
    objects = "".join(f"{line}\n" for line in changes(preview))
    whole = f"{objects}\n{preview}" if objects else preview
    text = whole if len(whole) <= LONGEST else whole[:LONGEST] + _CUT
    # Longer than any run of backticks in the text, so that it can't end the block.
    fence = "`" * (1 + max((len(run) for run in _runs_of_backticks(text)), default=2))
    return (
        f"### Pulumi preview of `{stack}`\n\n{summary(outcome, preview)}\n\n"
        f"<details><summary>All of it</summary>\n\n{fence}diff\n{text}\n{fence}\n\n</details>\n"
    )


def _runs_of_backticks(text: str) -> list[str]:
    runs = "".join(letter if letter == "`" else " " for letter in text).split()
    return [run for run in runs if len(run) > 1]


def main(arguments: list[str]) -> None:
    """Write the comment on a preview."""
    stack, outcome, preview, target = arguments
    Path(target).write_text(comment(stack, outcome, Path(preview).read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
