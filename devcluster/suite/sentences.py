"""Finds long sentences, words and names of an earlier vocabulary, and docstrings that begin with a question.

Usage: python3 -m devcluster.suite.sentences FILE...
Prints one line for each find, as `FILE:LINE: 24 words: the sentence`, and ends with 1 if there is one.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from devcluster.suite import identifiers

MAX_WORDS = 20
"""Words of a sentence. A colon or a semicolon begins a new one, code in backticks counts as one word."""

FOREIGN_WORDS = {
    "carry out": "execute, or what it does",
    "farewell": "prestop",
    "ghost": "orphaned record",
    "healed": "restored",
    "healer": "drift reconciler",
    "keeper": "what it keeps: a supervisor, a controller of roots, job_init",
    "mend": "repair",
    "mended": "repaired",
    "mirror": "informer or cache",
    "rehearsal": "config dry run",
    "rung": "step of a repair",
    "unaccounted": "slurmdbd fallback",
}
"""Words of an earlier vocabulary, each with the field's own."""

SENTENCE_FOLDERS = ("bench", "components", "contract", "devcluster", "health", "images", "native", "operator", "tests")
"""Folders whose docstrings begin with a sentence or a noun phrase, such as "Return whether …" (PEP 257)."""
_QUESTION = re.compile(r"(What|Whether|Why|Who|Whom|Whose|Which|How|When|If)\b")


@dataclass(frozen=True, slots=True)
class Prose:
    """A run of text in a file: `line` is where it begins, from 1."""

    line: int
    text: str


def long_sentences(prose: Prose) -> Iterator[str]:
    """Yield the sentences that have more than `MAX_WORDS` words."""
    text = re.sub(r"``[^`]+``|`[^`]+`|\[([^\]]*)\]\([^)]*\)", lambda match: match[1] or "code", prose.text)
    for paragraph in re.split(r"\n\s*\n|\n\s*(?:[*-]|\d+\.|@\w+)\s", text):
        for sentence in re.split(r"(?<=[.!?:;])[\"')*]*\s+", " ".join(paragraph.split())):
            words = [word for word in sentence.split() if re.search(r"[A-Za-z0-9]", word)]
            if len(words) > MAX_WORDS:
                yield f"{len(words)} words: {sentence}"


def foreign_words(prose: Prose) -> Iterator[str]:
    """Return a line for each word of the earlier vocabulary."""
    for word, ours in FOREIGN_WORDS.items():
        if re.search(rf"\b{word}s?\b", prose.text, re.IGNORECASE):
            yield f"{word!r}: say {ours}"


def questions(file: Path) -> Iterator[Prose]:
    """Return the docstrings of Python, or comments of C, that begin with a question in place of a sentence."""
    if file.parts[0] in SENTENCE_FOLDERS and file.suffix in (".py", ".c", ".h"):
        about = _docstrings(file.read_text()) if file.suffix == ".py" else prose_of(file)
        yield from (prose for prose in about if _QUESTION.match(prose.text.lstrip()))


def prose_of(file: Path) -> list[Prose]:
    """Return the text of a file that a person reads, without its code.

    Raises:
        ValueError: for a kind of file that is not known here.
    """
    text = file.read_text()
    match file.suffix:
        case ".py":
            return [*_docstrings(text), *_python_comments(text)]
        case ".md":
            return _paragraphs(text)
        case ".c" | ".h":
            return _matches(text, r'"(?:\\.|[^"\\\n])*"|/\*(.*?)\*/|((?:^[ \t]*//[^\n]*\n)+)', "//")
        case ".sh" | ".conf" | ".yaml" | "":
            return _matches(text, r"()((?:^[ \t]*#(?!!)[^\n]*\n)+)", "#")
    raise ValueError(f"{file}: no rule for where this kind of file has its comments")


def _docstrings(text: str) -> Iterator[Prose]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            # A section such as `Raises:` begins a paragraph, and so does each entry of it.
            told = re.sub(r"\n(\s*)(\w[\w, ]*:)(?=\s)", r"\n\n\1\2", node.value.value)
            yield Prose(node.lineno, told)


def _python_comments(text: str) -> Iterator[Prose]:
    """Yield the comments; those of lines that follow each other are one text."""
    begin, lines, last = 0, list[str](), (-2, 0)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT or re.match(r"# (noqa|type:|fmt:)|#!", token.string):
            continue
        if token.start != (last[0] + 1, last[1]):
            if lines:
                yield Prose(begin, "\n".join(lines))
            begin, lines = token.start[0], []
        lines.append(token.string.lstrip("# "))
        last = token.start
    if lines:
        yield Prose(begin, "\n".join(lines))


def _paragraphs(text: str) -> list[Prose]:
    """Return the text of Markdown without its code blocks, tables and headings."""
    blocks = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
    without_code = blocks.sub(lambda match: "\n" * match[0].count("\n"), text)
    kept = [("" if re.match(r"\s*\||#", line) else line) for line in without_code.splitlines()]
    prose, begin, lines = [], 1, list[str]()
    for number, line in enumerate([*kept, ""], start=1):
        if line.strip() and not (lines and re.match(r"\s*([*-]|\d+\.) ", line)):
            begin = number if not lines else begin
            lines.append(line)
            continue
        if lines:
            prose.append(Prose(begin, "\n".join(lines)))
        begin, lines = number, [line] if line.strip() else []
    return prose


def _matches(text: str, pattern: str, mark: str) -> list[Prose]:
    prose = []
    for match in re.finditer(pattern, text, flags=re.DOTALL | re.MULTILINE):
        told = match[1] or match[2] or ""  # Neither in a string of C.
        plain = "\n".join(re.sub(rf"^\s*({mark}+|\*+)", "", line) for line in told.splitlines())
        prose.append(Prose(text.count("\n", 0, match.start()) + 1, plain))
    return prose


def main(files: list[str]) -> int:
    """Print each find; 1 if there is one, else 0."""
    finds = [
        f"{file}:{prose.line}: {find}"
        for file in files
        for prose in prose_of(Path(file))
        for find in (*long_sentences(prose), *foreign_words(prose))
    ]
    finds += [
        f"{file}:{prose.line}: begin with a sentence: {prose.text.strip().splitlines()[0]}"
        for file in files
        for prose in questions(Path(file))
    ]
    finds += [
        f"{file}:{name.line}: the name {name.text!r}: say {ours}"
        for file in files
        for name, ours in identifiers.foreign(Path(file))
    ]
    for find in finds:
        print(find)
    return 1 if finds else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
