"""Docs and the witness's tables know what the manual pages in the image have: keys, options, letters and variables.

docs/slurm-keys.md says who sets each key.
"""

from pathlib import Path

import pytest

from components.config.pages import key_table
from tests.image.configuration import man_pages
from tests.witness import options, runs, variables
from tests.witness.installed import SHARING

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

LEAST = {"slurm.conf": 250, "gres.conf": 10, "cgroup.conf": 20, "slurmdbd.conf": 60}
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


OF_SLURMS_SBCAST = {"nodelist", "no-allocation", "version"}
"""The jail has an sbcast of ours (native/programs/sbcast.c)."""
NO_OPTIONS_VARIABLE = {
    # Each line of --bcast runs with it.
    "SLURM_CONF",
    # What the client logs, what PMI-1 of a user's own program sends, and whether a message names a node.
    *("SLURM_DEBUG_FLAGS", "PMI_FANOUT", "PMI_FANOUT_OFF_HOST", "PMI_TIME", "SLURM_PMI_KVS_NO_DUP_KEYS"),
    "SLURM_STEP_KILLED_MSG_NODE_ID",
    # --oom-kill-step.
    "SLURM_OOMKILLSTEP",
    # --nodes.
    "SLURM_NNODES",
}
"""Variables of the pages that name no option of theirs by their own name; none names a path but the first."""
PROGRAMS = [(program, table) for programs, table in options.OPTIONS.items() for program in sorted(programs)]
LEAST_OPTIONS = {"srun": 120, "sbatch": 100, "salloc": 90, "strigger": 30, "scancel": 20}
"""Likewise."""


@pytest.mark.parametrize(("program", "table"), PROGRAMS, ids=[program for program, _ in PROGRAMS])
def test_the_witness_knows_each_option_of_a_programs_page(image: Path, program: str, table: options.Table) -> None:
    """A page may name what no parser lists: say in tests/witness/options.py what it is."""
    long, letters = man_pages.options(image, program)
    assert len(long) >= LEAST_OPTIONS.get(program, 0)
    assert letters
    assert long - {*table} == (OF_SLURMS_SBCAST if program == "sbcast" else set())
    if program == "scrontab":
        assert {f"-{letter}" for letter in letters} <= {*table}


@pytest.mark.parametrize("program", SHARING)
def test_the_witness_knows_each_letter_and_each_variable_of_a_page(image: Path, program: str) -> None:
    _, letters = man_pages.options(image, program)
    read = man_pages.variables(image, program) - NO_OPTIONS_VARIABLE
    assert len(read) > 40
    assert not variables.differences(program, runs.JOB_TABLE, read, letters)
