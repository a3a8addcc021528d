"""`make check` finds long sentences, words and names of an earlier vocabulary, and docstrings that are questions."""

from __future__ import annotations

from pathlib import Path

import pytest

from devcluster.suite import sentences

SHORT = "One two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
LONG = f"{SHORT} and five more words follow"


def finds(file: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the lines that a run over one file prints, without the file's name."""
    sentences.main([str(file)])
    return [line.partition(f"{file}:")[2] for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("page.md", f"# {LONG}\n\n{LONG}.\n"),
        ("module.py", f'x = "{LONG}"\n\n"""{LONG}."""\n'),
        ("comment.py", f"x = 1\n\n# {LONG}.\n"),
        ("library.c", f"int x;\n\n/* {LONG}. */\n"),
        ("script.sh", f"true\n\n# {LONG}.\n"),
    ],
    ids=["markdown", "docstring", "comment", "C", "shell"],
)
def test_a_long_sentence_is_found_in_each_kind_of_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str
) -> None:
    file = tmp_path / name
    file.write_text(text)
    assert finds(file, capsys) == [f"3: 21 words: {LONG}."]


def test_code_links_and_colons_do_not_make_a_sentence_long(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "page.md"
    file.write_text(f"{SHORT}: {SHORT}; `{LONG}` and [text]({LONG}).\n")
    assert finds(file, capsys) == []


def test_a_word_of_the_earlier_vocabulary_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "module.py"
    file.write_text('"""The healers.\n\nThey heal."""\n')
    assert finds(file, capsys) == ["1: 'healer': say drift reconciler"]


def test_a_docstring_is_no_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "module.py").write_text('"""Whether all is well.\n\nWhat is bad?"""\n\nx = 1\n"""What."""\n')
    monkeypatch.chdir(tmp_path)
    assert finds(Path("bench/module.py"), capsys) == [
        "1: begin with a sentence: Whether all is well.",
        "6: begin with a sentence: What.",
    ]


def test_a_comment_in_c_is_no_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "native").mkdir()
    (tmp_path / "native" / "guard.c").write_text("/* True if all is well. */\nint well;\n\n/* Whether. */\nint ill;\n")
    monkeypatch.chdir(tmp_path)
    assert finds(Path("native/guard.c"), capsys) == ["4: begin with a sentence: Whether."]


PYTHON_NAMES = """
import found as seen
from a import b as carry_out

class GhostRecord:
    def keeper(self, each, *, people): return each.found + people


self._trial: int = [found for found in ()]


class TakeJobs:
    next_pace = 1
"""


def test_a_name_of_the_earlier_vocabulary_is_found_where_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("operator", "tests"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "module.py").write_text(PYTHON_NAMES)
    monkeypatch.chdir(tmp_path)
    named = [line.split(": say")[0] for line in finds(Path("operator/module.py"), capsys)]
    assert sorted(named) == [
        "12: the name 'TakeJobs'",
        "13: the name 'next_pace'",
        "3: the name 'carry_out'",
        "5: the name 'GhostRecord'",
        "6: the name 'each'",
        "6: the name 'keeper'",
        "6: the name 'people'",
        "9: the name '_trial'",
        "9: the name 'found'",
    ]
    assert finds(Path("tests/module.py"), capsys) == [], "a test says what it is about in its own words"


def test_a_name_of_the_earlier_vocabulary_is_found_in_c_outside_of_comments_and_strings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "native").mkdir()
    file = tmp_path / "native" / "job.c"
    file.write_text('/* It is found\n * there. */\nchar *a = "each";\n\nint found = 1, each_one; // each\n')
    monkeypatch.chdir(tmp_path)
    assert finds(Path("native/job.c"), capsys) == ["5: the name 'found': say what it is"]


def test_nothing_found_is_success(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text("A sentence.\n")
    assert sentences.main([str(file)]) == 0
    file.write_text(f"{LONG}.\n")
    assert sentences.main([str(file)]) == 1
