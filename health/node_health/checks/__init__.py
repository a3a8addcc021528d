"""The checks: each module reads one thing (`look`, at the edge) and judges what it read (`judge`, pure)."""

from collections.abc import Callable

from contract.reasons import Check
from node_health.checks import cpus, gpus, jail, kernel_log, memory, space, user_namespaces
from node_health.node import Declared
from node_health.verdict import Finding

CHECKS: dict[str, Callable[[Declared], Finding]] = {
    Check.JAIL: lambda declared: jail.judge(jail.look()),
    Check.SPACE: lambda declared: space.judge(space.look(), declared),
    Check.MEMORY: lambda declared: memory.judge(memory.look(), declared),
    Check.CPUS: lambda declared: cpus.judge(cpus.look(), declared),
    Check.GPUS: lambda declared: gpus.judge(gpus.look(), declared),
    Check.KERNEL_LOG: lambda declared: kernel_log.judge(kernel_log.look(), kernel_log.out_of_memory()),
    Check.USER_NAMESPACES: lambda declared: user_namespaces.judge(user_namespaces.look()),
}
"""The checks by name, in the order of the output."""
