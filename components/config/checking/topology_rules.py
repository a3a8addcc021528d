"""Rules between topologies, and the node sets and partitions that use them."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from components.config.model import NotParsedError
from components.config.nodes.node_sets import NodeSet
from components.config.partitions import Partition
from components.config.program import Config
from components.config.rule import Violation, named_twice, one_of, rows_with
from components.config.topologies import Place, Topology, TopologyType, default_topology, unlabeled
from components.config.values import slurm_files

_FILES: Final = ("topology.yaml", "topology.conf")


def one_source(config: Config) -> Iterator[Violation]:
    """A cluster has topologies of one kind: declared ones, or a file of one's own."""
    if not config.slurm.topologies:
        return
    for name in _FILES:
        if name in config.slurm.files:
            want = "nothing beside slurm.topologies, from which this program writes topology.yaml"
            yield Violation("slurm", "files", name, want=want)
    for name in config.slurm.options:
        if name.lower() == "topologyplugin":
            yield Violation("slurm", "options", name, want="nothing beside slurm.topologies: Slurm ignores it")


def plugin(config: Config) -> Iterator[Violation]:
    """A plugin that reads topology.conf has that file; with a topology.yaml Slurm ignores the plugin."""
    if config.slurm.topologies or any(name in config.slurm.files for name in _FILES):
        return
    for name, value in config.slurm.options.items():
        if name.lower() == "topologyplugin" and value.lower() in slurm_files.TAKEN["topology.conf"].needs:
            want = (
                "nothing, or slurm.files.topology.conf beside it: slurmctld would not start; slurm.topologies declares "
                "trees and blocks without a file"
            )
            yield Violation("slurm", "options", name, want=want)


def used(config: Config) -> Iterator[Violation]:
    """A tree or block topology without nodes lets no job start."""
    placed = {place for node_set in config.node_sets for place in _places(node_set)}
    for index, topology in rows_with(config.slurm.topologies, "name", "type"):
        if topology.type is not TopologyType.FLAT and topology.name not in placed:
            want = f"one that a node set names: nodeSets[].topology with name: {topology.name}"
            yield Violation("slurm", "topologies", index, "name", want=want)


def places(config: Config, node_set: NodeSet) -> Iterator[Violation]:
    """A node set's places are in topologies that there are."""
    yield from named_twice(node_set.topology, "topology")
    declared = _declared(config)
    for index, place in rows_with(node_set.topology, "name"):
        if place.name not in declared:
            want = one_of("the name of one of slurm.topologies", declared)
            yield Violation("topology", index, "name", want=want)
            continue
        with suppress(NotParsedError):
            for violation in _place(config, declared[place.name], place):
                yield violation.inside("topology", index)


def _place(config: Config, topology: Topology, place: Place) -> Iterator[Violation]:
    if place.labels and not config.operator.watch_nodes:
        yield Violation("labels", want="nothing beside operator.watchNodes: false: the operator could not read them")
    match topology.type:
        case TopologyType.FLAT:
            yield Violation("name", want="a topology of type tree or block: all nodes are in a flat one")
        case TopologyType.TREE:
            yield from _in_a_tree(config, topology, place)
        case TopologyType.BLOCK:
            yield from _in_blocks(topology, place)


def _in_a_tree(config: Config, topology: Topology, place: Place) -> Iterator[Violation]:
    if place.unit is None:
        if place.labels:
            yield Violation("unit", want=f"the switch of topology {topology.name} that is above those of the labels")
    elif place.unit not in topology.units:
        yield _no_unit("switch", topology)
    elif not place.is_by_labels and not topology.is_leaf(place.unit):
        below = ", ".join(topology.switches[place.unit])
        yield Violation("unit", want=f"a leaf switch: {place.unit} has switches below it ({below})")
    elif not place.is_by_labels and (sets := _with_labels(config, topology.name, place.unit)):
        want = f"another switch: labels of node set {', '.join(sets)} make switches below {place.unit}"
        yield Violation("unit", want=want)
    elif place.labels and unlabeled(place.unit) in topology.units:
        yield Violation("unit", want=f"another switch: {unlabeled(place.unit)} is for nodes without a label")


def _in_blocks(topology: Topology, place: Place) -> Iterator[Violation]:
    if place.unit is not None and place.labels:
        yield Violation("labels", want="nothing beside unit: there are no blocks below a block")
    elif len(place.labels) > 1:
        yield Violation("labels", want="one label alone: its value names the block")
    elif place.unit is not None and place.unit not in topology.units:
        yield _no_unit("block", topology)


def _no_unit(kind: str, topology: Topology) -> Violation:
    want = f"a {kind} of topology {topology.name}; there are: {', '.join(topology.units) or 'none'}"
    return Violation("unit", want=want)


def _with_labels(config: Config, topology: str, unit: str) -> list[str]:
    """Return the node sets for which labels make switches below a switch."""
    own = [(node_set.name, place) for node_set in config.node_sets for place in getattr(node_set, "topology", ())]
    return [name for name, place in own if (place.name, place.unit) == (topology, unit) and place.labels]


def _declared(config: Config) -> dict[str, Topology]:
    return {topology.name: topology for topology in config.slurm.topologies}


def _places(node_set: NodeSet) -> set[str]:
    """Return the names of the topologies that a node set's nodes are in."""
    return {place.name for place in getattr(node_set, "topology", ()) if hasattr(place, "name")}


def of_partition(config: Config, partition: Partition) -> Iterator[Violation]:
    """A partition's topology is there, and has all of its nodes: Slurm gives a job no nodes from both sides."""
    declared, own = _declared(config), partition.options.get("Topology")
    if own is not None and not declared:
        yield from _of_the_file(config, own)
    elif own is not None and own not in declared:
        want = one_of("the name of one of slurm.topologies", declared)
        yield Violation("options", "Topology", want=want)
    elif topology := declared.get(own or "") or default_topology(config.slurm.topologies):
        yield from _members(config, partition, topology)


def _members(config: Config, partition: Partition, topology: Topology) -> Iterator[Violation]:
    if topology.type is TopologyType.FLAT:
        return
    there = {node_set.name: _places(node_set) for _, node_set in rows_with(config.node_sets, "name", "topology")}
    for index, member in enumerate(partition.node_sets):
        if topology.name not in there.get(member, {topology.name}):
            want = (
                f"a node set with {topology.name} in its topology, or another topology in options.Topology: Slurm "
                "gives a job no nodes from both sides"
            )
            yield Violation("nodeSets", index, want=want)


def _of_the_file(config: Config, name: str) -> Iterator[Violation]:
    text = config.slurm.files.get("topology.yaml")
    if text is None:
        want = "nothing, or slurm.topologies or slurm.files.topology.yaml, which have topologies that it may name"
        yield Violation("options", "Topology", want=want)
        return
    known = slurm_files.topologies(text)
    if known is not None and name not in known:
        want = one_of("the name of a topology in slurm.files.topology.yaml", known)
        yield Violation("options", "Topology", want=want)
