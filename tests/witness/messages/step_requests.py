"""Requests that slurmstepd takes at its steps' sockets, in slurmd's spool: if a new Slurm takes others, a test fails.

Nobody in a jail reaches such a socket (tests/image/doors/test_step_sockets.py). The table says what he would reach.
"""

from __future__ import annotations

import enum
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path


class Asks(enum.Enum):
    """The users from whom Slurm itself takes a request; everybody may connect."""

    SLURM = "root and SlurmUser"
    OWNER = "the step's user, too"
    ANYBODY = "everybody"


TAKEN: Mapping[int, tuple[str, Asks]] = {
    1: ("REQUEST_SLUID", Asks.ANYBODY),
    4: ("REQUEST_SIGNAL_CONTAINER", Asks.OWNER),
    5: ("REQUEST_STATE", Asks.ANYBODY),
    7: ("REQUEST_ATTACH", Asks.SLURM),
    8: ("REQUEST_PID_IN_CONTAINER", Asks.ANYBODY),
    9: ("REQUEST_DAEMON_PID", Asks.ANYBODY),
    10: ("REQUEST_STEP_SUSPEND", Asks.SLURM),
    11: ("REQUEST_STEP_RESUME", Asks.SLURM),
    12: ("REQUEST_STEP_TERMINATE", Asks.OWNER),
    14: ("REQUEST_STEP_TASK_INFO", Asks.ANYBODY),
    15: ("REQUEST_STEP_LIST_PIDS", Asks.ANYBODY),
    16: ("REQUEST_STEP_RECONFIGURE", Asks.SLURM),
    17: ("REQUEST_STEP_STAT", Asks.OWNER),
    18: ("REQUEST_STEP_COMPLETION", Asks.SLURM),
    19: ("REQUEST_STEP_MEM_LIMITS", Asks.ANYBODY),
    20: ("REQUEST_STEP_UID", Asks.ANYBODY),
    21: ("REQUEST_STEP_NODEID", Asks.ANYBODY),
    22: ("REQUEST_ADD_EXTERN_PID", Asks.SLURM),
    23: ("REQUEST_X11_DISPLAY", Asks.OWNER),
    24: ("REQUEST_GETPW", Asks.ANYBODY),
    25: ("REQUEST_GETGR", Asks.ANYBODY),
    26: ("REQUEST_GET_NS_FD", Asks.OWNER),
    27: ("REQUEST_GETHOST", Asks.ANYBODY),
    28: ("REQUEST_GET_NS_FDS", Asks.OWNER),
    29: ("REQUEST_GET_BPF_TOKEN", Asks.SLURM),
    30: ("REQUEST_STEP_UPDATE_MEM_LIMITS", Asks.SLURM),
    31: ("REQUEST_JOB_USAGE", Asks.SLURM),
    4022: ("REQUEST_JOB_NOTIFY", Asks.OWNER),
}
"""Number (step_msg_t, and one of slurm_msg_type_t) → name, and who may ask."""
RELAYED: Mapping[int, str] = {
    2005: "REQUEST_JOB_STEP_INFO",
    4023: "REQUEST_JOB_SBCAST_CRED",
    4027: "REQUEST_HET_JOB_ALLOC_INFO",
    5001: "REQUEST_JOB_STEP_CREATE",
    5003: "REQUEST_STEPMGR_RESIZE_KILL_STEPS",
    5005: "REQUEST_CANCEL_JOB_STEP",
    5007: "REQUEST_UPDATE_JOB_STEP",
    5021: "REQUEST_STEP_LAYOUT",
    5043: "REQUEST_STEPS_DRAINED_SUBSCRIBE",
    7002: "SRUN_TIMEOUT",
    7003: "SRUN_NODE_FAIL",
    7004: "SRUN_JOB_COMPLETE",
}
"""Requests that slurmd alone relays to a step manager. slurmctld refuses step managers (--stepmgr)."""
ROW = struct.Struct("<H??4xQ")
"""slurmstepd_rpc_t of Slurm's src/slurmd/slurmstepd/req.c: type, of slurmd alone, of the owner, and the function."""


def taken(program: Path, table: str) -> dict[int, Asks]:
    """The requests in a table of the installed slurmstepd; an empty row ends it."""
    found = {}
    for kind, of_slurmd, of_owner, _ in ROW.iter_unpack(_bytes_of(program, table)):
        if kind:
            found[kind] = Asks.SLURM if of_slurmd else Asks.OWNER if of_owner else Asks.ANYBODY
    return found


def differences(found: Mapping[int, Asks], relayed: Mapping[int, Asks]) -> list[str]:
    """One sentence for each request that the tables lack, have too much, or have with others who may ask."""
    known = {number: asks for number, (_, asks) in TAKEN.items()}
    return [
        *(
            f"slurmstepd lets {found.get(number)} send {number}, "
            f"and tests/witness/messages/step_requests.py {known.get(number)}"
            for number in sorted({*found} | {*known})
            if found.get(number) is not known.get(number)
        ),
        *(f"a step manager takes {number}, or no more: see RELAYED" for number in sorted({*relayed} ^ {*RELAYED})),
    ]


def _bytes_of(program: Path, name: str) -> bytes:
    """The bytes of a global variable, which lies in one of the program's loaded segments."""
    command = ["nm", "--dynamic", "--defined-only", "--print-size", str(program)]
    listed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    rows = {row[3]: (int(row[0], 16), int(row[1], 16)) for row in map(str.split, listed.splitlines()) if len(row) == 4}
    address, size = rows[name]
    whole = program.read_bytes()
    first, each, count = (*struct.unpack_from("<Q", whole, 32), *struct.unpack_from("<HH", whole, 54))
    for place in range(first, first + each * count, each):
        kind, _, offset, begin, _, filled = struct.unpack_from("<IIQQQQ", whole, place)
        if kind == 1 and begin <= address < begin + filled:
            return whole[offset + address - begin :][:size]
    raise LookupError(f"{program} has no {name} in its segments")
