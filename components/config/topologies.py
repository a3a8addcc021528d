"""Configuration of Slurm's topologies: the network as switches or blocks, and where a node set's nodes are in it."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Final

from components.config.model import Model, NotParsedError, setting
from components.config.rule import Violation, first_written, is_whole, named_twice, number_written, rule
from components.config.values.object_names import LabelKey
from components.config.values.quantities import WholeNumber
from components.config.values.validation import matching
from contract import names

MOST_LEVELS: Final = 20
"""slurmctld takes a deeper tree for one with a cycle (switch_record.c)."""
_MOST_BLOCK_LEVELS: Final = 16
"""MAX_BLOCK_LEVELS of block_record.h."""
UnitName = Annotated[
    str,
    matching(
        r"[A-Za-z0-9]([A-Za-z0-9._-]{0,51}[A-Za-z0-9])?",
        "at most 53 letters, digits and inner `.`, `_` and `-`, such as rack1",
    ),
]
"""Names of topologies, switches and blocks. Slurm takes 64 characters, of which some are left for a suffix."""


class TopologyType(StrEnum):
    """Kind of a topology, as topology.yaml has it."""

    TREE = "tree"
    BLOCK = "block"
    FLAT = "flat"


_KEYS: Final[Mapping[str, TopologyType]] = {
    "switches": TopologyType.TREE,
    "blocks": TopologyType.BLOCK,
    "blockSizes": TopologyType.BLOCK,
}
"""Key → the only type that has it."""


class Topology(Model):
    """A topology of topology.yaml. Node sets say where their nodes are in it, in nodeSets[].topology."""

    name: UnitName = setting("Its name, for `scontrol show topology`.")
    type: TopologyType = setting("tree: switches. block: groups of nodes such as NVLink domains. flat: neither.")
    default: bool = setting(
        "Whether it is that of partitions that name none in options.Topology. One of several must be; a single one is.",
        default=False,
    )
    switches: dict[UnitName, list[UnitName]] = setting(
        "A tree's switches, each with the switches below it. One that only stands below another is a leaf.",
        factory=dict,
    )
    blocks: list[UnitName] = setting(
        "Names of a block topology's blocks, in the order of their nearness.", factory=list
    )
    block_sizes: list[WholeNumber] = setting(
        "Nodes of a block, the planning base block size; then sizes of groups of blocks. Each is the first one times a "
        "power of two.",
        factory=list,
    )

    @property
    def units(self) -> list[str]:
        """Names of its switches or blocks, parents before children.

        Raises:
            NotParsedError: One of them is wrong, and may be the one that is looked for.
        """
        if not all(is_whole(rows) for rows in (self.switches, self.blocks, *self.switches.values())):
            raise NotParsedError("units")
        below = [child for children in self.switches.values() for child in children]
        return list(dict.fromkeys([*self.switches, *below, *self.blocks]))

    def is_leaf(self, unit: str) -> bool:
        """Return whether no switch stands below a switch; each block is one, too."""
        return not self.switches.get(unit)

    @rule
    def _type(self) -> Iterator[Violation]:
        for key, of in _KEYS.items():
            if key in self.given and self.type is not of:
                yield Violation(key, want=f"nothing with type: {self.type}; type: {of} has them")
        missing = [key for key, of in _KEYS.items() if self.type is of and key not in self.given]
        for key in missing:
            yield Violation(key, want=f"one or more: type: {self.type} has them")

    @rule
    def _empty(self) -> Iterator[Violation]:
        for key, value in (("switches", self.switches), ("blocks", self.blocks), ("blockSizes", self.block_sizes)):
            if key in self.given and not number_written(value) and self.type is _KEYS[key]:
                yield Violation(key, want="one or more: slurmctld ends without")

    @rule
    def _tree(self) -> Iterator[Violation]:
        parents: dict[str, str] = {}
        for parent, children in self.switches.items():
            for index, child in enumerate(children):
                if child in parents:
                    want = f"each switch below one other; {child} is below {parents[child]} already"
                    yield Violation("switches", parent, index, want=want)
                parents.setdefault(child, parent)
        for switch in self.switches:
            way = _way_up(switch, parents)
            if switch in way:
                want = f"switches that are below no switch of their own: {' below '.join([switch, *way])}"
                yield Violation("switches", switch, want=want)
            elif len(way) >= MOST_LEVELS:
                yield Violation("switches", switch, want=f"at most {MOST_LEVELS} switches above one another")

    @rule
    def _blocks(self) -> Iterator[Violation]:
        for index, block in enumerate(self.blocks):
            if block in self.blocks[:index]:
                yield Violation("blocks", index, want="each of them once")

    @rule
    def _sizes(self) -> Iterator[Violation]:
        base = first_written(self.block_sizes)
        if base is not None and base < 1:
            yield Violation("blockSizes", 0, want="1 or more")
            return
        allowed = [base << level for level in range(_MOST_BLOCK_LEVELS)] if base else []
        for index, size in enumerate(self.block_sizes):
            if base and size not in allowed:
                near = ", ".join(map(str, allowed[1:5]))
                yield Violation("blockSizes", index, want=f"{base} times a power of two: {near} …")
            elif index and size <= self.block_sizes[index - 1]:
                yield Violation("blockSizes", index, want="a larger size than the one before")


def unlabeled(switch: str) -> str:
    """Return the leaf switch below a switch that has the nodes whose Kubernetes nodes lack a label."""
    return f"{switch}-{names.UNLABELED}"


def _way_up(switch: str, parents: Mapping[str, str]) -> list[str]:
    """Return the switches above a switch, the nearest first; they end with the switch itself if it is in a cycle."""
    way: list[str] = []
    at: str | None = parents.get(switch)
    while at is not None and at not in way:
        way.append(at)
        at = parents.get(at) if at != switch else None
    return way


class Place(Model):
    """Where the nodes of a set are in a topology."""

    name: UnitName = setting("One of slurm.topologies.")
    unit: UnitName | None = setting(
        "The leaf switch or block of all nodes of the set. With labels, the switch below which theirs are made.",
        default=None,
    )
    labels: list[LabelKey] = setting(
        "Keys of labels of Kubernetes nodes. In a tree each value is a switch, the first below unit and each further "
        "one below the one before. In a block topology the one value names the block. Needs operator.watchNodes.",
        factory=list,
    )

    @property
    def is_by_labels(self) -> bool:
        """Return whether labels say where a node is, wrong ones too."""
        return number_written(self.labels) > 0

    @rule
    def _source(self) -> Iterator[Violation]:
        if self.unit is None and not self.is_by_labels:
            yield Violation("unit", want="a switch or block, or labels that name one")
        for index, label in enumerate(self.labels):
            if label in self.labels[:index]:
                yield Violation("labels", index, want="each of them once")


def default_topology(topologies: Sequence[Topology]) -> Topology | None:
    """Return the topology of partitions that name none; None without topologies."""
    marked = [topology for topology in topologies if topology.default]
    return next(iter([*marked, *topologies]), None)


def problems(topologies: Sequence[Topology]) -> Iterator[Violation]:
    """Yield violations by a list of topologies: names that stand twice, and not exactly one default."""
    yield from named_twice(topologies, "topologies")
    marked = [index for index, topology in enumerate(topologies) if getattr(topology, "default", False)]
    for index in marked[1:]:
        yield Violation("topologies", index, "default", want=f"one default; topologies[{marked[0]}] is one already")
    if len(topologies) > 1 and not marked:
        want = "default: true in one of them, whose partitions name none in options.Topology"
        yield Violation("topologies", want=want)
