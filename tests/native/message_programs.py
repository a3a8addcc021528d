"""Programs of Slurm with message_guard.so before a library that stands for Slurm's: each receives a message."""

from __future__ import annotations

import shutil
import socket
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

NATIVE, PROBES = Path("native"), Path(__file__).parent / "doors"
NOBODY, ROOT, SLURM, ALICE = -1, 0, 64030, 1000
PING, ANSWER, STEP_COMPLETE, FORWARD, LAUNCH, SIGNAL = 1008, 2004, 5016, 5029, 6001, 6004
PERSIST_INIT = 6500
NO_VALUE = 0xFFFFFFFE
MIB = 1 << 20
SLOW_BYTES, SLOW_READERS = 8 << 20, 4
"""So much slurmctld keeps here for readers that are slow."""
STEP_BYTES = 1 << 11
_BOUNDS = {
    "INIT_MILLISECONDS": 500,
    "MOMENT_MILLISECONDS": 1000,
    "SLOW_BYTES": SLOW_BYTES,
    "SLOW_READERS": SLOW_READERS,
    "STEP_BYTES": STEP_BYTES,
    "MOST_WAITING": 3,
    "CLIENT_MILLISECONDS": 10,
}
_OF_STEPD = ("doors/answer_guard.c", "stepd/stepd_answers.c")
Ask = Callable[..., str]


def build(folder: Path, make: Callable[..., Path]) -> None:
    """Makes the programs in a folder. hasty/slurmctld waits for a slow reader for 50 ms."""
    probes = [str(PROBES / name) for name in ("message_probe.c", "connection_probe.c")]
    shared = ("-shared", "-fPIC")
    libraries = [str(PROBES / f"{name}_library.c") for name in ("message", "nodes", "credential", "job", "clients")]
    _gcc(*shared, "-o", f"{folder}/libslurm.so", *libraries)
    _gcc(*shared, "-o", f"{folder}/stepd_guard.so", *(str(NATIVE / name) for name in _OF_STEPD))
    bounds = ["-O1", *(f"-D{name}={value}" for name, value in _BOUNDS.items())]
    guard = make("message_guard.so", folder, f"CFLAGS={' '.join(bounds)}")
    hasty = make("message_guard.so", folder / "hasty", f"CFLAGS={' '.join([*bounds, '-DSLOW_MILLISECONDS=50'])}")
    loaded = {"slurmd": guard, "slurmstepd": folder / "stepd_guard.so", "hasty/slurmctld": hasty}
    for program, library in loaded.items():
        _gcc("-o", f"{folder}/{program}", *probes, "-Wl,--no-as-needed", str(library), f"{folder}/libslurm.so")
    for name in ("slurmctld", "slurmdbd", "srun", "salloc", "sattach", "swait", "unknown"):
        shutil.copy(folder / "slurmd", folder / name)


def _gcc(*arguments: str) -> None:
    command = ["gcc", "-D_GNU_SOURCE", "-iquote", str(NATIVE), "-iquote", str(NATIVE / "doors"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def asker(folder: Path) -> Ask:
    """Has a program receive a message, and gives what became of it."""

    def asked(
        program: str, kind: int | str, sender: int, reading: str = "works", how: str = "received", conf: str = ""
    ) -> str:
        (folder / "slurm.conf").write_text(conf)
        done = subprocess.run(
            [folder / program, str(kind), str(sender), reading, how],
            capture_output=True, text=True, timeout=60, check=False, env={"SLURM_CONF": f"{folder}/slurm.conf"},
        )  # fmt: skip
        assert done.returncode == 0, done
        return " ".join(word for word in done.stdout.split() if "=" not in word)

    return asked


def launch(
    nodes: int,
    listed: str,
    counts: int = 0,
    repeats: tuple[int, ...] = (),
    het: int = NO_VALUE,
    credential: str = "",
) -> str:
    """A launch for so many nodes, as the probe takes it: what stands before its credential, and the list of nodes.

    Args:
        nodes: of how many it has tasks.
        listed: the nodes that it names.
        counts: how many counts of CPUs it has.
        repeats: for how many nodes each of them holds.
        het: how many nodes of a heterogeneous job it has tasks of.
        credential: what `signed` makes; without it slurmctld signed it for alice, step 0 and this node.
    """
    other = het * struct.pack("!III", 2, 0, 1) if het != NO_VALUE else b""
    body = (
        struct.pack("!QIII", 0, 0, 0, NO_VALUE)
        + struct.pack("!II", 1, ALICE)
        + struct.pack("!III", 0, NO_VALUE, het)
        + other
    )
    body += struct.pack("!III", NO_VALUE, NO_VALUE, 0) + struct.pack("!II", 0, 0) + struct.pack("!II", 0, 1)
    body += bytes(4 * 2 + 2 * 8) + struct.pack("!IH", nodes, 1)
    body += (
        struct.pack("!I", counts)
        + bytes(2 * min(counts, 9))
        + struct.pack(f"!I{len(repeats)}I", len(repeats), *repeats)
    )
    return f"launch:{body.hex()}:{listed}:{credential or signed()}"


def signed(user: int = ALICE, step: int = 0, node: str = "") -> str:
    """A launch's credential: whom, which step and which node of its job slurmctld signed it for."""
    return f"{user} {step} {node or socket.gethostname()}"
