"""What `PULUMI_KUBERNETES_PLUGIN` may name."""

from __future__ import annotations

from pathlib import Path

import pytest

from devcluster import kubernetes_plugin as plugin


def test_without_the_variable_the_stand_in_is_used() -> None:
    found = plugin.chosen({})
    assert found.is_stand_in
    assert str(found).startswith("the stand-in of this checkout, in place of pulumi-resource-kubernetes 4.")


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        (None, 0, "there is no such file; give the file of Pulumi's"),
        ("#!/bin/sh\n", 0o600, "it is not executable; chmod +x it"),
        ("#!/bin/sh\necho hello\n", 0o700, "it does not answer as a Pulumi plugin does"),
        ("#!/bin/sh\necho 9\n", 0o700, "it does not answer as a Pulumi plugin does"),
    ],
)
def test_what_is_no_plugin_is_told_in_one_sentence(tmp_path: Path, content: str | None, mode: int, words: str) -> None:
    file = tmp_path / "plugin"
    if content is not None:
        file.write_text(content)
        file.chmod(mode)
    with pytest.raises(plugin.NoPlugin) as told:
        plugin.chosen({plugin.VARIABLE: str(file)})
    assert str(told.value).startswith(f"PULUMI_KUBERNETES_PLUGIN={file}: {words}")


@pytest.mark.parametrize(
    ("name", "version", "words"),
    [("aws", "1.0.0", "it is a plugin for aws"), ("kubernetes", "", "it tells no version")],
)
def test_another_plugin_is_told_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, version: str, words: str
) -> None:
    file = tmp_path / "plugin"
    file.touch(mode=0o700)
    monkeypatch.setattr(plugin, "_introduced", lambda *_: (name, version))
    with pytest.raises(plugin.NoPlugin, match=words):
        plugin.chosen({plugin.VARIABLE: str(file)})
