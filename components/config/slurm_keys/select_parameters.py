"""SelectTypeParameters of slurm.conf: one of three kinds of CPUs that jobs take, and further words."""

from typing import Final

CONSUMED: Final = ("CR_Core_Memory", "CR_CPU_Memory", "CR_Socket_Memory")
"""Words that say what jobs take of a node: cores, CPUs or sockets. The first one is this program's default."""
MORE: Final = (
    "CR_CORE_DEFAULT_DIST_BLOCK",
    "CR_LLN",
    "CR_NO_DIST_TOPO_BLOCK",
    "CR_ONE_TASK_PER_CORE",
    "CR_Pack_Nodes",
    "ENFORCE_BINDING_GRES",
    "LL_SHARED_GRES",
    "MULTIPLE_SHARING_GRES_PJ",
    "ONE_TASK_PER_SHARING_GRES",
)
"""Further words, of which any may be added."""
_OF_CPUS: Final = ("CR_Core", "CR_CPU", "CR_Socket")


def refusal(value: str) -> str:
    """Return why Slurm, or limits of memory, would not take a value; empty if they do."""
    words = [word.lower() for word in value.split(",")]
    consumed = [word for word in CONSUMED if word.lower() in words]
    known = {word.lower() for word in (*CONSUMED, *MORE)}
    bare = [word for word in (*_OF_CPUS, "CR_Memory") if word.lower() in words]
    wanted = [
        f"{word if word in _OF_CPUS else 'CR_Core'}_Memory in place of {word}: jobs take CPUs, and memory, which their "
        "limits depend on"
        for word in bare
    ]
    if unknown := [word for word in value.split(",") if word.lower() not in {*known, *map(str.lower, bare)}]:
        wanted.append(f"words of slurm.conf(5), {', '.join((*CONSUMED, *MORE))}, in place of {', '.join(unknown)}")
    if len(consumed) > 1:
        wanted.append(f"one of {', '.join(consumed)}")
    if "CR_CPU_Memory" in consumed and "cr_one_task_per_core" in words:
        wanted.append("no CR_ONE_TASK_PER_CORE beside CR_CPU_Memory: Slurm takes one of the two")
    return "; ".join(wanted)


def merged(value: str) -> str:
    """Return a user's words, after this program's default where he does not say what jobs take."""
    words = value.split(",")
    consumed = any(word.lower() == own.lower() for word in words for own in CONSUMED)
    return ",".join([*([] if consumed else CONSUMED[:1]), *words])
