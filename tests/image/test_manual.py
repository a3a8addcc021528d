"""docs/slurm-keys.md has each key of the manual pages in the image, and says who sets it."""

from pathlib import Path

import pytest

from components.config.pages import key_table
from tests.image import man_pages

OF_THE_PARSER = {
    "The cluster": {
        *("burstbufferparameters", "frontendname", "include"),
        # The first keys of lines that other headings describe.
        *("downnodes", "nodename", "nodeset", "partitionname", "poweraction"),
    },
    "Nodes": {"feature", "gresconf", "tresweights"},
    "Partitions": {"exclusivetopo", "exclusiveuser", "priority", "shared"},
}
"""Keys that Slurm's parser takes (test_options.py), and no page describes."""

LEAST = {"slurm.conf": 250, "gres.conf": 10, "cgroup.conf": 20}
"""A page that is read wrongly has fewer keys."""


@pytest.mark.parametrize("section", key_table.SECTIONS, ids=lambda section: section.title)
def test_the_table_has_every_key_of_the_manual(image: Path, section: key_table.Section) -> None:
    """A new Slurm with another key fails here: say in the section's list whose it is."""
    page = man_pages.keys(image, section.file)
    manual = {key.lower() for heading in section.headings for key in page[heading]}
    said = {key.lower() for key in section.said}
    assert sorted(manual - said) == [], "nobody said who sets these"
    assert sorted(said - manual) == sorted(OF_THE_PARSER.get(section.title, set())), "the manual does not have these"


@pytest.mark.parametrize("file", LEAST)
def test_no_heading_of_a_page_is_left_out(image: Path, file: str) -> None:
    page = man_pages.keys(image, file)
    read = {heading for section in key_table.SECTIONS if section.file == file for heading in section.headings}
    assert sum(len(page[heading]) for heading in read) >= LEAST[file]
    assert {heading for heading in page if heading.endswith(("CONFIGURATION", "PARAMETERS", "PLUGIN"))} <= read
