"""Promises of `make check`: checks run two at a time, each one's words stay together, and any failure fails it."""

from __future__ import annotations

from pathlib import Path

import pytest

from devcluster.cli import check

WAITS = """
echo {0} begins; touch {0}
for look in $(seq 500); do if test -e {1}; then echo {0} ends; exit; fi; sleep 0.02; done; exit 1
"""
"""Each waits for the other, ten seconds at most: one after the other the first one would fail."""


def test_two_checks_run_at_a_time_and_each_ones_words_stay_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("a", "types")
    scripts = {name: WAITS.format(name, other) for name, other in zip(names, reversed(names), strict=True)}
    monkeypatch.setattr(check, "CHECKOUT", tmp_path)
    monkeypatch.setattr(check, "commands", lambda: {name: ["sh", "-c", script] for name, script in scripts.items()})
    assert check.run() == 0
    assert capsys.readouterr().out.split("\n") == ["a begins", "a ends", "types begins", "types ends", ""]


def test_what_is_known_of_types_is_kept_for_the_next_checkout_and_read_by_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULUMI_SLURM_CACHE", str(tmp_path))
    lock, _, held, *mypy = check.commands()["types"]
    assert (lock, Path(held)) == ("flock", tmp_path / "mypy")
    assert Path(held).is_dir()
    assert f"--cache-dir={held}" in mypy


def test_c_that_passed_is_checked_again_once_it_or_its_compiler_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PULUMI_SLURM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(check, "CHECKOUT", tmp_path)
    source = tmp_path / "jail.c"
    monkeypatch.setattr(check, "_tracked", lambda *_: ["jail.c"])
    checks = {"C": "echo checked; ! grep bug jail.c"}

    def passes() -> tuple[bool, bool]:
        """Return whether the check passed, and whether it ran."""
        commands = {name: check._unless_passed(name, ["sh", "-c", script]) for name, script in checks.items()}
        monkeypatch.setattr(check, "commands", lambda: commands)
        return check.run() == 0, "checked" in capsys.readouterr().out

    source.write_text("bug")
    assert [passes(), passes()] == [(False, True)] * 2, "what failed is tried again"
    source.write_text("good")
    assert [passes(), passes()] == [(True, True), (True, False)]
    monkeypatch.setenv("CC", "another")
    assert passes() == (True, True)
    source.write_text("bug")
    assert passes() == (False, True)


def test_one_failed_check_fails_all_and_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = {"good": ["true"], "bad": ["sh", "-c", "echo why >&2; exit 3"], "later": ["true"]}
    monkeypatch.setattr(check, "commands", lambda: checks)
    assert check.run() == 1
    shown = capsys.readouterr()
    assert shown.out == "why\n"
    assert "FAILED bad" in shown.err
    assert "ok     later" in shown.err
    assert "make check: failed: bad" in shown.err
