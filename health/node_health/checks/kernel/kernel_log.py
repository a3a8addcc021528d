"""Reads the kernel's messages about GPUs (Xid), NVSwitches (SXid) and memory since boot.

An unprivileged pod has no /dev/kmsg. Then nobody here reads them, which is no PASS: the check is skipped, with words
that explain how to have them read. It is not UNKNOWN, which would drain each node for good by the policy `drain`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from contract import reasons
from node_health.check import Check, DoesNotApplyError, Machine
from node_health.sources import kmsg
from node_health.sources.kmsg import KMSG, Log, Message
from node_health.verdict import Action, Finding, fails, passes, unknown, warns

_XID = r"^NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+)"
_SXID = r"^nvidia-nvswitch(\d+): SXid \(PCI:[0-9a-fA-F:.]+\): (\d+), (Fatal|Non-fatal)"
"""At the start of a message: words of users may stand in the middle, such as a mount option that the kernel refuses."""
_RECOVERY = r"GPU recovery action changed from \S+ \(([^)]*)\) to \S+ \(([^)]*)\)"
"""Xid 154, whose message has the action."""
_RECOVERED = "None"
_MACHINE_FULL = r"^Out of memory: Killed process"
"""Out of memory of the whole machine. A job at its own limit gives "Memory cgroup out of memory", which is no fault."""

UNREAD = (
    f"nobody here reads the kernel's log for {{}}, since the pod has no {KMSG}: node-problem-detector does on the "
    "Kubernetes node (health.nodeConditions)"
)


@dataclass(frozen=True, slots=True)
class Event:
    """An Xid or SXid of one device."""

    name: str
    device: str
    action: Action
    fatal: bool

    def __str__(self) -> str:
        return f"{self.name} of {self.device}"


def judge(log: Log, machine: Machine) -> Finding:
    """FAIL after a fatal Xid, WARNING after another one or when the machine or the pod ran out of memory."""
    if log.refused:
        return unknown(log.refused)
    messages = log.messages or ()
    events = list(dict.fromkeys([*gpu_events(messages), *switch_events(messages)]))
    if fatal := [event for event in events if event.fatal]:
        return fails(", ".join(map(str, fatal)), fatal[0].action)
    killed = sum(1 for message in messages if re.search(_MACHINE_FULL, message.text))
    told = [str(event) for event in events]
    told += [f"the machine ran out of memory and killed {killed} processes"] if killed else []
    told += [f"the pod ran out of memory {log.pod_full} times"] if log.pod_full else []
    if told:
        return warns("; ".join(told), events[0].action if events else None)
    if log.messages is None:
        raise DoesNotApplyError(UNREAD.format("Xids" if machine.declared.gpus else "faults"))
    return passes(f"{len(messages)} messages, none of harm")


def gpu_events(messages: Iterable[Message]) -> list[Event]:
    """Returns the Xids, without those of a GPU that the driver has since found recovered (Xid 154)."""
    events: list[Event] = []
    for message in messages:
        if not (match := re.search(_XID, message.text)):
            continue
        event = _gpu_event(message, match[1], int(match[2]))
        if event.action is Action.NONE:
            events = [earlier for earlier in events if earlier.device != event.device]
        else:
            events.append(event)
    return events


def switch_events(messages: Iterable[Message]) -> list[Event]:
    """Returns the SXids: the driver itself says which ones are fatal (Fabric Manager user guide, "SXid Errors")."""
    matches = [match for message in messages if (match := re.search(_SXID, message.text))]
    return [_switch_event(f"NVSwitch {match[1]}", int(match[2]), fatal=match[3] == "Fatal") for match in matches]


def _switch_event(device: str, number: int, *, fatal: bool) -> Event:
    from node_health.sources.nvidia_errors import sxids

    return Event(sxids.sentence(number), device, sxids.action(number, fatal), fatal)


def _gpu_event(message: Message, device: str, number: int) -> Event:
    if recovery := re.search(_RECOVERY, message.text):
        name = f"Xid {number} (recovery action: {recovery[2]})"
        return Event(name, f"GPU {device}", Action.NONE if recovery[2] == _RECOVERED else Action.IGNORE, fatal=False)
    from node_health.sources.nvidia_errors import xids

    known = xids.XIDS.get(number)
    action = known.action if known else Action.CONTACT_SUPPORT
    return Event(xids.sentence(number), f"GPU {device}", action, number in xids.FATAL)


CHECK = Check(
    reasons.Check.KERNEL_LOG,
    kmsg.look,
    judge,
    fails="an Xid after which a GPU needs a reset or the machine a restart, as NVIDIA's catalog says, or a fatal SXid "
    "of an NVSwitch. A GPU that the driver has since found recovered (Xid 154) is well",
    warns="another Xid or SXid; the Kubernetes node ran out of memory, or the pod did (by its cgroup)",
    remedy="do what NVIDIA's action says, then restart the pod",
    action=Action.CONTACT_SUPPORT,
)
