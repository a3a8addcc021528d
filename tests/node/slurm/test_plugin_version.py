import subprocess
from pathlib import Path

import pytest
from slurm_node.pod.log import NodeError
from slurm_node.slurm import plugin_version


def built(path: Path, code: str) -> Path:
    source = path.with_suffix(".c")
    source.write_text(code)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", path, source], check=True, timeout=60)
    return path


def test_a_plugin_of_the_same_version_is_used(tmp_path: Path) -> None:
    one = built(tmp_path / "a.so", "const unsigned plugin_version = 0x1a0505; const int other = 7;")
    other = built(tmp_path / "b.so", "int early = 3; unsigned plugin_version = 0x1a0505;")
    assert plugin_version.version_number(one) == 0x1A0505
    assert plugin_version.refusal(one, other) is None


def test_a_plugin_of_another_version_is_refused_in_words(tmp_path: Path) -> None:
    old = built(tmp_path / "old.so", "const unsigned plugin_version = 0x190b01;")
    new = built(tmp_path / "new.so", "const unsigned plugin_version = 0x1a0505;")
    said = plugin_version.refusal(old, new)
    assert said is not None
    assert "built for Slurm 25.11.1, this is 26.5.5" in said


@pytest.mark.parametrize("content", [b"", b"no plugin", b"\x7fELF\x02\x01" + bytes(200)])
def test_what_is_no_plugin_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "x.so"
    file.write_bytes(content)
    with pytest.raises(NodeError, match="no Slurm plugin"):
        plugin_version.version_number(file)
    assert plugin_version.refusal(file, file) is not None
    assert plugin_version.refusal(tmp_path / "missing.so", file) is not None


def test_a_library_without_the_symbol_is_no_plugin(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="no Slurm plugin"):
        plugin_version.version_number(built(tmp_path / "none.so", "int plugin_versions = 1;"))
