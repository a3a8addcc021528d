"""Makes docs/slurm-keys.md from the lists that checks use: who sets each key of slurm.conf and three more files."""

from dataclasses import dataclass
from typing import Final

from components.config.slurm_keys import (
    cgroup_conf,
    defaults,
    gres_conf,
    node_options,
    partition_options,
    slurm_conf_lines,
    slurm_options,
    slurmdbd_conf,
)
from components.config.slurm_keys.line_keys import LineKeys
from components.config.values import slurm_files

_HEAD: Final = """# Keys of slurm.conf, gres.conf, cgroup.conf and slurmdbd.conf

Made from the lists by which the program checks keys; `.venv/bin/python -m tests.unit.golden_files` writes it. Tests
compare the lists with the manual pages in the image, and with what its Slurm's parser takes (26.05).
[sites.md](sites.md) has the lines of five sites' slurm.conf that cannot be said here.
"""
_TABLE: Final = """
## {title}

| key of {file} | who sets it |
|---|---|
"""


@dataclass(frozen=True, slots=True)
class Section:
    """Keys that a manual page describes together.

    Attributes:
        title: Heading on this page.
        file: The file whose manual page it is.
        headings: Headings of the manual page over these keys.
        keys: The keys, in lists.
        options: Last part of the path of the configuration that takes the free keys.
    """

    title: str
    file: str
    headings: tuple[str, ...]
    keys: LineKeys
    options: str = "options"

    @property
    def said(self) -> dict[str, str]:
        """Key → who sets it, or why nobody does."""
        keys = self.keys
        return {
            **{key: f"`{keys.at}.{name}`" for key, name in keys.typed.items()},
            **{key: f"this program: {reason}" for key, reason in keys.owned.items()},
            **{key: f"nobody: {reason}" for key, reason in keys.refused.items()},
            **dict.fromkeys(keys.allowed, f"`{keys.at}.{self.options}`"),
        }


SECTIONS: Final = (
    Section("The cluster", "slurm.conf", ("PARAMETERS",), slurm_options.KEYS),
    Section("Nodes", "slurm.conf", ("NODE CONFIGURATION",), node_options.KEYS),
    Section("Down nodes", "slurm.conf", ("DOWN NODE CONFIGURATION",), slurm_conf_lines.DOWN_NODES),
    Section("Node sets", "slurm.conf", ("NODESET CONFIGURATION",), slurm_conf_lines.NODE_SETS),
    Section("Partitions", "slurm.conf", ("PARTITION CONFIGURATION",), partition_options.KEYS),
    Section("Power actions", "slurm.conf", ("POWERACTION CONFIGURATION",), slurm_conf_lines.POWER_ACTIONS),
    Section("Generic resources", "gres.conf", ("DESCRIPTION",), gres_conf.KEYS),
    Section(
        "Control groups",
        "cgroup.conf",
        ("DESCRIPTION", "TASK/CGROUP PLUGIN", "PROCTRACK/CGROUP PLUGIN"),
        cgroup_conf.KEYS,
        "cgroupOptions",
    ),
    Section("Accounting", "slurmdbd.conf", ("DESCRIPTION",), slurmdbd_conf.KEYS),
)


def _section(section: Section) -> str:
    rows = sorted(section.said.items(), key=lambda row: row[0].lower())
    head = _TABLE.format(title=section.title, file=section.file)
    return head + "".join(f"| {key} | {words} |\n" for key, words in rows)


_CHOSEN: Final = """
## Chosen values

These are this program's choices where Slurm leaves one. `slurm.options` replaces each value of slurm.conf, and
`slurm.cgroupOptions` those of cgroup.conf. A word of a list is replaced by its own new value, and taken out by `-`
before it: `SchedulerParameters: "bf_window=4320,-bf_continue"`. Pages without a section number are SchedMD's
([slurm.schedmd.com](https://slurm.schedmd.com/)).

| key | value | Slurm's default | source | why |
|---|---|---|---|---|
"""


def _chosen() -> str:
    rows = (*defaults.SLURM_CONF, *defaults.CGROUP_CONF)
    name = {row: f"{row.key}={row.word}" if row.word else row.key for row in rows}
    return _CHOSEN + "".join(
        f"| {name[row]} | {row.when} | {row.slurms} | {row.source} | {row.reason} |\n" for row in rows
    )


_FILES: Final = """
## Files beside slurm.conf

| file | who writes it | read by | nodes and logins get it |
|---|---|---|---|
"""


def _files() -> str:
    rows = {
        **{name: f"`slurm.files` | {taken.reader} | {_yes(taken.sent)}" for name, taken in slurm_files.TAKEN.items()},
        **{name: f"this program: {reason} | |" for name, reason in slurm_files.OURS.items()},
        **{name: f"nobody: {reason} | |" for name, reason in slurm_files.REFUSED.items()},
    }
    return _FILES + "".join(f"| {name} | {rows[name]} |\n" for name in sorted(rows))


def _yes(sent: bool) -> str:
    return "yes" if sent else "no"


def text() -> str:
    """Return the whole page."""
    return _HEAD + "".join(_section(section) for section in SECTIONS) + _chosen() + _files()
