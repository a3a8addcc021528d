"""Options of a node set: further keys of its nodes' lines, and what they must not contradict."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from components.config.nodes.gpus import Gpus
from components.config.rule import Violation
from components.config.slurm_keys.node_options import KEYS
from components.config.values.files import core_numbers
from components.config.values.quantities import WholeNumber

NodeOptionName = Annotated[str, AfterValidator(KEYS.check)]
NodeOptionValue = Annotated[WholeNumber, Field(ge=1, le=4_294_967_293)]

_LAYOUT: Final = ("Sockets", "CoresPerSocket", "ThreadsPerCore")


def line_violations(options: Mapping[str, int], cpus: int, memory_mib: int, gpus: int) -> Iterator[Violation]:
    """Yield what does not fit a node's size: Slurm would replace it by a value of its own.

    Args:
        options: The options.
        cpus: CPUs of a node.
        memory_mib: Its RealMemory.
        gpus: Its GPUs.
    """
    # A limit that is wrong by itself is told of once: `get` leaves it out.
    if (limit := options.get("MemSpecLimit")) is not None and limit >= memory_mib:
        yield Violation("options", "MemSpecLimit", want=f"less than RealMemory ({memory_mib}, in MiB)")
    restricted = options.get("RestrictedCoresPerGPU", 0)
    if restricted and not gpus:
        yield Violation("options", "RestrictedCoresPerGPU", want="nothing, or gpus beside it")
    cores = _cores(options, cpus)
    if cores is None:
        want = f"Sockets x CoresPerSocket x ThreadsPerCore, or without threads, that are resources.cpu ({cpus})"
        yield Violation("options", next(key for key in _LAYOUT if key in options), want=want)
        return
    if options.get("CoreSpecCount", 0) >= cores:
        yield Violation("options", "CoreSpecCount", want=f"less than the cores of a node ({cores})")
    if restricted * gpus > cores:
        yield Violation("options", "RestrictedCoresPerGPU", want=f"at most the cores for each GPU ({cores // gpus})")


def all_sockets_reserved(options: Mapping[str, int], cpus: int) -> bool:
    """Return whether CoreSpecCount takes a core of each socket of a node."""
    cores = _cores(options, cpus)
    if cores is None:
        return False
    return options.get("CoreSpecCount", 0) > cores - _cores_of_a_socket(options, cores)


def socket_violations(options: Mapping[str, int], cpus: int, gpus: Gpus) -> Iterator[Violation]:
    """Yield cores of GPUs that are no whole sockets: slurmctld would not take the node.

    Args:
        options: The options of its line.
        cpus: CPUs of a node.
        gpus: Its GPUs.
    """
    cores = _cores(options, cpus)
    if cores is None:
        return
    of_a_socket = _cores_of_a_socket(options, cores)
    for index, kind in enumerate(gpus.types):
        at = ("gpus", *(("more", index - 1) if index else ()), "cores")
        for files, listed in kind.cores.items():
            numbers = core_numbers(listed)
            if numbers[-1] >= cores:
                yield Violation(*at, files, want=f"cores of the node: 0-{cores - 1}")
            elif any(count != of_a_socket for count in Counter(core // of_a_socket for core in numbers).values()):
                yield Violation(*at, files, want=f"all cores of a socket, which has {of_a_socket}, or of several")


def _cores_of_a_socket(options: Mapping[str, int], cores: int) -> int:
    return cores // options["Sockets"] if "Sockets" in options else options.get("CoresPerSocket", 1)


def _cores(options: Mapping[str, int], cpus: int) -> int | None:
    """Cores of a node as slurmctld counts them; None if the numbers do not make its CPUs."""
    of_a_socket, threads = options.get("CoresPerSocket", 1), options.get("ThreadsPerCore", 1)
    if "Sockets" not in options:
        return None if cpus % (of_a_socket * threads) else cpus // threads
    cores = options["Sockets"] * of_a_socket
    return cores if cpus in (cores, cores * threads) else None
