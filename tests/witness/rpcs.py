"""Every message that slurmd, sackd and slurmstepd take: who may send it, and what came of sending it."""

from __future__ import annotations

import enum
from collections.abc import Mapping

NUMBERS = range(1000, 12001)
"""Where Slurm's message types lie (slurm_msg_type_t)."""
REFUSED = {"2010", "13", "1", "2002"}
"""ESLURM_USER_ID_MISSING, EACCES, EPERM, ESLURM_ACCESS_DENIED."""
UNKNOWN = "22"
"""EINVAL: slurmd's answer to a type that it does not take."""
NO_TOKEN, CLOSED, ENDED = "no token", "closed", "ended"
MALFORMED = "5003"
"""SLURM_PROTOCOL_INCOMPLETE_PACKET and its like: zeros are no body of that type, so nothing was asked."""


class Sender(enum.Enum):
    """Who may send a message of a type to slurmd."""

    CONTROLLER = "slurmctld: SlurmUser and root alone"
    OWNER = "the owner of the job, or an administrator: a body of zeros names no job"
    ANYBODY = "anybody: it reads what is no secret"


TAKEN: Mapping[str, Sender] = {
    **dict.fromkeys(
        [
            "REQUEST_LAUNCH_PROLOG",
            "REQUEST_BATCH_JOB_LAUNCH",
            "REQUEST_JOB_MEM_USAGE",
            "REQUEST_UPDATE_JOB_MEM",
            "REQUEST_KILL_PREEMPTED",
            "REQUEST_KILL_TIMELIMIT",
            "REQUEST_SUSPEND_INT",
            "REQUEST_ABORT_JOB",
            "REQUEST_TERMINATE_JOB",
            "REQUEST_SHUTDOWN",
            "REQUEST_RECONFIGURE",
            "REQUEST_RECONFIGURE_WITH_CONFIG",
            "REQUEST_REBOOT_NODES",
            "REQUEST_RUN_POWER_ACTION",
            "REQUEST_NODE_REGISTRATION_STATUS",
            "REQUEST_PING",
            "REQUEST_HEALTH_CHECK",
            "REQUEST_NODE_HEALTH_CHECK",
            "REQUEST_ACCT_GATHER_UPDATE",
            "REQUEST_SET_DEBUG_FLAGS",
            "REQUEST_SET_DEBUG_LEVEL",
        ],
        Sender.CONTROLLER,
    ),
    **dict.fromkeys(
        [
            "REQUEST_LAUNCH_TASKS",
            "REQUEST_SIGNAL_TASKS",
            "REQUEST_TERMINATE_TASKS",
            "REQUEST_REATTACH_TASKS",
            "REQUEST_FILE_BCAST",
            "REQUEST_STEP_COMPLETE",
            "REQUEST_JOB_STEP_CREATE",
            "REQUEST_JOB_STEP_STAT",
            "REQUEST_JOB_STEP_PIDS",
            "REQUEST_JOB_STEP_INFO",
            "REQUEST_JOB_NOTIFY",
            "REQUEST_FORWARD_DATA",
            "REQUEST_CANCEL_JOB_STEP",
            "REQUEST_STEPS_DRAINED_SUBSCRIBE",
            "SRUN_JOB_COMPLETE",
            "SRUN_NODE_FAIL",
            "REQUEST_STEPMGR_RESIZE_KILL_STEPS",
            "SRUN_TIMEOUT",
            "REQUEST_UPDATE_JOB_STEP",
            "REQUEST_STEP_LAYOUT",
            "REQUEST_JOB_SBCAST_CRED",
            "REQUEST_HET_JOB_ALLOC_INFO",
            "REQUEST_JOB_ID",
        ],
        Sender.OWNER,
    ),
    **dict.fromkeys(
        ["REQUEST_ACCT_GATHER_ENERGY", "REQUEST_DAEMON_STATUS", "REQUEST_NETWORK_CALLERID"], Sender.ANYBODY
    ),
}

NAMES = f"""
import ctypes, json
name = ctypes.CDLL("/opt/slurm/lib/slurm-wlm/libslurmfull.so").rpc_num2string
name.restype = ctypes.c_char_p
named = {{number: name(number).decode() for number in range({NUMBERS.start}, {NUMBERS.stop})}}
print(json.dumps({{number: text for number, text in named.items() if not text.isdigit()}}))
"""
"""Python in a pod that prints the installed Slurm's types: number → name."""

VERSION = 45 << 8
"""Of the wire format; slurmd answers nothing to another."""

# Slurm's wire format: numbers in network order, texts with their length, which counts the zero at the end.
CLIENT = r"""
import json, os, socket, struct, sys, time
VERSION, SACK_CREATE, ANY_READER, AUTH_SLURM, K12 = @VERSION@, 64001, 0xFFFFFFFF, 103, 2
BODY = bytes(1024)
RATE, ROUNDS, ALL = 168, 12, (1 << 64) - 1

def whole(stream, size):
    got = b""
    while len(got) < size:
        part = stream.recv(size - len(got))
        if not part:
            raise EOFError
        got += part
    return got

def turn(word, by):
    return (word << by | word >> (64 - by)) & ALL if by else word

def constants():
    state, found = 1, []
    for _ in range(24):
        word = 0
        for power in range(7):
            if state & 1:
                word |= 1 << ((1 << power) - 1)
            state = state << 1 ^ (0x171 if state >> 7 else 0)
        found.append(word)
    return found[-ROUNDS:]

CONSTANTS = constants()

def permuted(a):
    for constant in CONSTANTS:
        c = [a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20] for x in range(5)]
        d = [c[x - 1] ^ turn(c[(x + 1) % 5], 1) for x in range(5)]
        a = [word ^ d[place % 5] for place, word in enumerate(a)]
        x, y, current = 1, 0, a[1]
        for step in range(24):
            x, y = y, (2 * x + 3 * y) % 5
            current, a[x + 5 * y] = a[x + 5 * y], turn(current, (step + 1) * (step + 2) // 2 % 64)
        for row in range(0, 25, 5):
            b = a[row:row + 5]
            for x in range(5):
                a[row + x] = b[x] ^ (~b[(x + 1) % 5] & ALL & b[(x + 2) % 5])
        a[0] ^= constant
    return a

# KangarooTwelve of a message of one chunk: the hash by which Slurm binds a token to its message.
def bound(text, custom):
    text += custom + bytes([len(custom), 1]) + b"\x07"
    text += bytes(-len(text) % RATE)
    text = text[:-1] + bytes([text[-1] ^ 0x80])
    state = [0] * 25
    for start in range(0, len(text), RATE):
        for place, word in enumerate(struct.unpack("<21Q", text[start:start + RATE])):
            state[place] ^= word
        state = permuted(state)
    return struct.pack("<4Q", *state[:4])

def token(kind):
    digest = bytes([K12]) + bound(BODY, struct.pack("!H", kind))
    text = struct.pack("!III", SACK_CREATE, ANY_READER, len(digest)) + digest
    with socket.socket(socket.AF_UNIX) as sack:
        sack.settimeout(5)
        sack.connect("/run/slurm/sack.socket")
        sack.sendall(struct.pack("!HI", VERSION, len(text) + 4) + text)
        return whole(sack, struct.unpack("!I", whole(sack, 4))[0])

def answer(kind, own, daemon):
    auth = struct.pack("!II", AUTH_SLURM, len(own)) + own
    head = struct.pack("!HHHIHHH", VERSION, 0, kind, len(BODY), 0, 0, 0)
    message = head + auth + BODY
    try:
        daemon.settimeout(5)
        daemon.sendall(struct.pack("!I", len(message)) + message)
        said = whole(daemon, struct.unpack("!I", whole(daemon, 4))[0])
    except TimeoutError:
        return "no answer"
    except (OSError, EOFError):
        return "closed"
    kind, size = struct.unpack("!HI", said[4:10])
    return str(struct.unpack("!I", said[-4:])[0]) if kind == 8001 and size == 4 else f"message {kind}"

def within(seconds, ask, *of):
    deadline = time.monotonic() + seconds
    while True:
        try:
            return ask(*of)
        except (OSError, EOFError):
            if time.monotonic() > deadline:
                return None
            time.sleep(0.1)

user, address, kinds = int(sys.argv[1]), (sys.argv[2], 6818), json.load(open(sys.argv[3]))
if user != os.getuid():
    os.setgid(user)
    os.setuid(user)
def reach(kind, seconds):
    own = within(seconds, token, kind)
    return own and (own, within(seconds, socket.create_connection, address, 5))

with open(sys.argv[4], "w") as out:
    known, before = False, None
    for kind in [*kinds, None]:
        own, daemon = reach(int(kind or 0), 0) or (None, None)
        if known and not daemon:
            # It was there: the message before has ended it.
            print(before, "ended", file=out, flush=True)
            own, daemon = reach(int(kind or 0), 60) or (None, None)
        if kind:
            known, before = bool(daemon), kind
            said = answer(int(kind), own, daemon) if daemon else "closed" if own else "no token"
            print(kind, said, file=out, flush=True)
        if daemon:
            daemon.close()
""".replace("@VERSION@", str(VERSION))
"""Sends each type with a body of zeros: USER ADDRESS FILE-OF-TYPES OUT; a line of OUT is a type and the answer."""


def answers(text: str) -> dict[str, str]:
    """Type → answer, of what the client wrote; the last word on a type holds."""
    return dict(line.split(maxsplit=1) for line in text.splitlines())


def differences(names: Mapping[str, str], said: Mapping[str, str]) -> list[str]:
    """One sentence for each type that slurmd takes and the table lacks, or that is no more."""
    taken = {
        names[number] for number, answer in said.items() if answer not in {UNKNOWN, CLOSED, NO_TOKEN, ENDED, MALFORMED}
    }
    return [
        *(f"slurmd takes {name}, which tests/witness/rpcs.py does not classify" for name in sorted(taken - {*TAKEN})),
        *(
            f"Slurm has no {name} any more: take it out of tests/witness/rpcs.py"
            for name in sorted({*TAKEN} - {*names.values()})
        ),
    ]


def faults(names: Mapping[str, str], said: Mapping[str, str]) -> list[str]:
    """One sentence for each message of slurmctld's that somebody else could send."""
    refused = {*REFUSED, NO_TOKEN, CLOSED, ENDED}
    return [
        f"{names[number]}: the daemon answered {answer}, which is no refusal"
        for number, answer in said.items()
        if TAKEN.get(names[number]) is Sender.CONTROLLER and answer not in refused
    ]


def endings(names: Mapping[str, str], said: Mapping[str, str]) -> list[str]:
    """The messages that ended a daemon."""
    return [names[number] for number, answer in said.items() if answer == ENDED]
