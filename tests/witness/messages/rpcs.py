"""Every message that Slurm's daemons have: whom slurmd listens to, and what came of sending it."""

from __future__ import annotations

import enum
import json
import re
import shlex
import struct
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from contract import names
from tests.image.networks import ADDRESS
from tests.image.pods import WORKER
from tests.image.small_cluster import ALICE, SmallCluster

CLIENT = Path(__file__).with_name("rpc_client.py")
FOLDER = "/srv/rpcs"
NUMBERS = range(1000, 12001)
"""Where Slurm's message types lie (slurm_msg_type_t)."""
DENIED = {"2010", "13", "1", "2002"}
"""ESLURM_USER_ID_MISSING, EACCES, EPERM, ESLURM_ACCESS_DENIED."""
UNKNOWN = "22"
"""EINVAL: slurmd's answer to a type that it does not take."""
NO_TOKEN, CLOSED, ENDED = "no token", "closed", "ended"
UNREAD = {"5003", "5005", "1007", CLOSED}
"""SLURM_PROTOCOL_INCOMPLETE_PACKET and its like: the body was not read, or was none of that type."""
ZEROS = bytes(1024)
GUARDED = re.compile(r"refused (\w+) from uid (-?\d+)")
"""Line that native/doors/message_guard.c writes to the pod's log."""
NOBODY = -1
"""Its sender of a message without a token."""


class Listens(enum.Enum):
    """To whom slurmd listens about a type."""

    SLURM = "root and SlurmUser: of nobody else the body is read"
    OWNER = "the owner of the step that the body names"
    ANYBODY = "every user: it changes nothing, and tells no secret"


class Token(enum.StrEnum):
    """The token that signs a message."""

    OWN = "own"
    FORGED = "forged"
    """Says uid 0, under the signature of the sender's own."""
    MOVED = "moved"
    """The sender's own, of another message."""
    NULL_HASH = "null hash"
    """The sender's own, without a hash of any message: block_null_hash refuses it."""
    ZERO_HASH = "zero hash"
    """The sender's own, of the message's type alone: block_zero_hash refuses it."""
    NONE = "none"
    """The header says that there is none."""


TAKEN: Mapping[str, Listens] = {
    **dict.fromkeys(
        [
            "REQUEST_LAUNCH_TASKS",
            "REQUEST_SIGNAL_TASKS",
            "REQUEST_TERMINATE_TASKS",
            "REQUEST_REATTACH_TASKS",
            "REQUEST_JOB_STEP_STAT",
            "REQUEST_JOB_STEP_PIDS",
        ],
        Listens.OWNER,
    ),
    **dict.fromkeys(["REQUEST_JOB_ID", "REQUEST_DAEMON_STATUS"], Listens.ANYBODY),
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
            "REQUEST_ACCT_GATHER_ENERGY",
            "REQUEST_SET_DEBUG_FLAGS",
            "REQUEST_SET_DEBUG_LEVEL",
            # Of users by Slurm's own rules, but needed by none of its commands here (native/doors/message_guard.c).
            "REQUEST_FILE_BCAST",
            "REQUEST_STEP_COMPLETE",
            "REQUEST_JOB_STEP_CREATE",
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
            "REQUEST_NETWORK_CALLERID",
        ],
        Listens.SLURM,
    ),
}
SLURMCTLD = "slurmctld"
ANSWERED: Mapping[str, tuple[str, str]] = {
    "REQUEST_PING": ("RESPONSE_PING_SLURMD", SLURMCTLD),
    "REQUEST_ACCT_GATHER_UPDATE": ("RESPONSE_ACCT_GATHER_UPDATE", SLURMCTLD),
    "REQUEST_ACCT_GATHER_ENERGY": ("RESPONSE_ACCT_GATHER_ENERGY", "slurmstepd (native/stepd/stepd_answers.c)"),
    "REQUEST_JOB_MEM_USAGE": ("RESPONSE_JOB_MEM_USAGE", "a step manager, which no slurmstepd is here"),
    "REQUEST_DAEMON_STATUS": ("RESPONSE_SLURMD_STATUS", "scontrol show slurmd"),
    "REQUEST_JOB_STEP_STAT": ("RESPONSE_JOB_STEP_STAT", "sstat"),
    "REQUEST_JOB_STEP_PIDS": ("RESPONSE_JOB_STEP_PIDS", "sstat"),
    "REQUEST_JOB_ID": ("RESPONSE_JOB_ID", "scontrol pidinfo"),
    "REQUEST_NETWORK_CALLERID": ("RESPONSE_NETWORK_CALLERID", "pam_slurm_adopt, which no image has"),
}
"""slurmd answers these otherwise than by a return code: question → answer, and who asks.

REQUEST_REATTACH_TASKS is answered on a connection of slurmd's own, and nobody answers that.
"""
READ_OF_USERS = {name for name, who in TAKEN.items() if who is not Listens.SLURM}

NAMES = f"""
import ctypes, json
name = ctypes.CDLL("/opt/slurm/lib/slurm-wlm/libslurmfull.so").rpc_num2string
name.restype = ctypes.c_char_p
named = {{name(number).decode(): number for number in range({NUMBERS.start}, {NUMBERS.stop})}}
print(json.dumps({{text: number for text, number in named.items() if not text.isdigit()}}))
"""
"""Python in a pod that prints the installed Slurm's types: name → number."""


@dataclass(frozen=True)
class Message:
    """One message to slurmd."""

    name: str
    token: Token = Token.OWN
    body: bytes = ZEROS


class Place(enum.Enum):
    """Place of a sender, and the address at which it reaches slurmd."""

    JOB = "127.0.0.1"
    LOGIN = ADDRESS
    NODE = "127.0.0.2"
    """A node's view of the jail, without the door of native/doors/sack_door.c: for any id that nobody has."""
    POD = "127.0.0.3"
    """The worker's own root."""


@dataclass(frozen=True)
class Sender:
    """A sender and its place."""

    user: int
    place: Place
    port: int = names.SLURMD_PORT


IN_JOB, ON_LOGIN = Sender(ALICE, Place.JOB), Sender(ALICE, Place.LOGIN)
STRANGER, ROOT_OF_POD = Sender(2000, Place.NODE), Sender(0, Place.POD)


def to_slurmctld(place: Place) -> Sender:
    """The user, who reaches slurmctld from a job and from a login node."""
    return Sender(ALICE, place, names.SLURMCTLD_PORT)


class Daemons:
    """A small cluster whose daemons are sent messages."""

    def __init__(self, cluster: SmallCluster) -> None:
        self.cluster = cluster
        named = cluster.pod(f"python3 -c {shlex.quote(NAMES)}")
        assert named.returncode == 0, named
        self.types: dict[str, int] = json.loads(named.stdout)
        self._folder = cluster.root / FOLDER.lstrip("/")
        self._folder.mkdir(parents=True, exist_ok=True)
        self._folder.chmod(0o1777)
        (self._folder / "client.py").write_text(CLIENT.read_text())
        # By it a user becomes root, as with sudo.
        made = cluster.jail(f"cp $(readlink -f /usr/bin/python3) {FOLDER}/python; chmod 4755 {FOLDER}/python")
        assert made.returncode == 0, made

    def starts(self) -> int:
        """Return how often slurmd has started."""
        return self.cluster.log(WORKER).count("slurmd version")

    def guarded(self, since: int = 0, pod: str = WORKER) -> set[tuple[str, int]]:
        """Types that a pod's daemon would not read, and of whom, after so many characters of its log."""
        return {(name, int(uid)) for name, uid in GUARDED.findall(self.cluster.log(pod)[since:])}

    def send(self, sender: Sender, messages: Iterable[Message]) -> list[str]:
        """Sends messages; what came of each."""
        plan = [(str(place), self.types[each.name], each.token, each.body.hex()) for place, each in enumerate(messages)]
        name = f"{sender.user}-{sender.place.name}"
        (self._folder / f"{name}.plan").write_text(json.dumps(plan))
        done = self._run(sender, f"{name}.plan", f"{name}.out")
        assert done.returncode == 0, done
        said = answers((self._folder / f"{name}.out").read_text())
        return [said[place] for place, *_ in plan]

    def _run(self, sender: Sender, plan: str, out: str) -> subprocess.CompletedProcess[str]:
        folder = f"/run/jail{FOLDER}" if sender.place is Place.POD else FOLDER
        python = "python3" if sender.place in {Place.POD, Place.NODE} else f"{FOLDER}/python"
        whom = f"{sender.user} {sender.place.value} {sender.port}"
        command = f"{python} {folder}/client.py {whom} {folder}/{plan} {folder}/{out}"
        if sender.place is Place.JOB:
            return self.cluster.jail(f"srun -n1 --mem=50 {command}", user=ALICE, seconds=170)
        if sender.place is Place.LOGIN:
            return self.cluster.ssh(command, seconds=170)
        if sender.place is Place.NODE:
            return self.cluster.jail(command, user=sender.user, seconds=170)
        return self.cluster.pod(command, seconds=170)


def answers(text: str) -> dict[str, str]:
    """Label → answer, of what the client wrote; the last word on a message holds."""
    return dict(line.split(maxsplit=1) for line in text.splitlines())


def unclassified(types: Sequence[str], said_to_root: Sequence[str]) -> list[str]:
    """One sentence for each type that slurmd takes and the table lacks."""
    ignored = {UNKNOWN, ENDED, *UNREAD}
    return [
        f"slurmd takes {name}, which tests/witness/messages/rpcs.py does not classify: it answered root {said}"
        for name, said in zip(types, said_to_root, strict=True)
        if said not in ignored
    ]


def gone(types: Iterable[str]) -> list[str]:
    """One sentence for each type of the table that Slurm has no more."""
    lost = {*TAKEN} - {*types}
    return [f"Slurm has no {name} any more: take it out of tests/witness/messages/rpcs.py" for name in lost]


def step_of(job: int, step: int = 0) -> bytes:
    """A step's id, as bodies hold it (pack_step_id): without the second kind of id that 26.05 has."""
    return struct.pack("!QIII", 0, job, step, 0xFFFFFFFE)


def about(job: int) -> list[Message]:
    """Bodies that mean something, of each type that slurmd reads of users: they ask for a step of a job."""
    step = step_of(job)
    bodies = {
        "REQUEST_SIGNAL_TASKS": step + struct.pack("!HH", 0, 18),
        "REQUEST_TERMINATE_TASKS": step + struct.pack("!HH", 0, 9),
        "REQUEST_REATTACH_TASKS": struct.pack("!I", 0) + step + struct.pack("!IHH", 0, 0, 0),
        "REQUEST_JOB_STEP_STAT": step,
        "REQUEST_JOB_STEP_PIDS": step,
    }
    return [Message(name, body=body) for name, body in bodies.items()]
