"""Ways to break a node's jail, and what is said of it."""

from __future__ import annotations

from dataclasses import dataclass

ASK = "/opt/slurm/bin/sinfo -h -o '%T %E'"
"""The states of all nodes, and why."""
JAIL_SENTENCE = "this node can't run your job inside the jail"
PLUGINS = "/opt/slurm/lib/slurm-wlm"
OTHER_PLUGINS = f"mkdir /run/plugins; cp -a {PLUGINS}/. /run/plugins; cd /run/plugins; {{}}; mount --bind . {PLUGINS}"
"""The node's own folder of plugins is another: pods of this test share one image."""
SAME_PLUGINS = f"umount -l {PLUGINS}; rm -r /run/plugins"


@dataclass(frozen=True)
class Break:
    """A way to break and to repair a node, with the drain's reason and the step's messages."""

    breaks: str
    mends: str
    reason: str
    said: str = ""


BREAKS = {
    "not mounted": Break(
        "mkdir -p /run/away; mount --move /run/jail /run/away",
        "mount --move /run/away /run/jail",
        "is not a mount",
    ),
    # The node writes a marker that is gone again, if nothing is in the way of the new one.
    "half built": Break(
        "mkdir /run/jail/run/.jail-ready.new; rm /run/jail/run/.jail-ready",
        "rmdir /run/jail/run/.jail-ready.new",
        ".jail-ready is missing",
    ),
    "read-only": Break(
        "mount -o remount,bind,ro /run/jail", "mount -o remount,bind,rw /run/jail", "/run/jail is read-only"
    ),
    # What is not mounted, and has nothing in its place, the node mounts again within a second or two.
    "no devices": Break(
        "umount -l /run/jail/dev; mount -t tmpfs empty /run/jail/dev",
        "umount -l /run/jail/dev",
        "/run/jail/dev/null is not a device",
    ),
    "a mount point is missing": Break(
        "umount -l /run/jail/run/slurm; rmdir /run/jail/run/slurm; ln -s nowhere /run/jail/run/slurm",
        "rm /run/jail/run/slurm",
        "the mount /run/slurm is gone",
    ),
    "no shell": Break(
        "mv /run/jail/bin/sh /run/jail/bin/away",
        "mv /run/jail/bin/away /run/jail/bin/sh",
        "bin/sh is missing",
    ),
    "no namespaces": Break(
        "mount --bind /dev/null /opt/slurm/libexec/job_init",
        "umount /opt/slurm/libexec/job_init",
        "job_init: Permission denied",
    ),
    "a root of another revision": Break(
        "mkdir -p /mnt/jail/roots/r0/run; mount --bind /mnt/jail/roots/r0 /run/jail",
        "umount -l /run/jail; rm -r /mnt/jail/roots/r0",
        "/run/jail/run is not a mount",
    ),
    "no plugin": Break(
        OTHER_PLUGINS.format("rm spank_jail.so"),
        SAME_PLUGINS,
        "No such file or directory",
        "Required plugin type not loaded",
    ),
    "a plugin of another version": Break(
        OTHER_PLUGINS.format(
            'python3 -c "from pathlib import Path; from slurm_node.slurm import plugin_version as version;'
            " file = Path('spank_jail.so'); number = version.version_number(file).to_bytes(4, 'little');"
            ' file.write_bytes(file.read_bytes().replace(number, bytes([1, 11, 25, 0])))"'
        ),
        SAME_PLUGINS,
        "was built for Slurm 25.11.1",
        "Incompatible plugin version",
    ),
}
