"""The reference page says what the models say."""

from __future__ import annotations

from components.config import reference
from tests.unit import golden_files


def test_the_page_is_current() -> None:
    assert golden_files.REFERENCE.read_text() == reference.text(), golden_files.AGAIN


def test_a_default_is_the_one_in_effect_at_that_place() -> None:
    page = reference.text()
    assert "| `login.resources.memory` | `4Gi` |" in page
    assert "| `controller.resources.memory` | `1Gi` |" in page
    assert "| `nodeSets[].name` | **required** | Name of the set; its nodes are NAME-0, NAME-1 … |" in page
    assert "| `jail.persistent` | `[/home, /root, /srv]` |" in page
