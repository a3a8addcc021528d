"""Maintains the shared volume from a login node: equal users in all roots, driver links, deletion of old roots."""

import socket
import time

from slurm_node.accounts import account_sync
from slurm_node.jail import driver
from slurm_node.pod import paths, settings
from slurm_node.pod.log import say
from slurm_node.roots import old_roots

POLL_SECONDS = 1.0


def main() -> int:
    """Checks every second whether an account file of any root changed, and now and then for roots to delete.

    It is a process of its own, so that nothing else waits for storage that hangs.
    """
    jail, volume = settings.read_jail(), paths.VOLUME
    use, links = old_roots.Use(jail.revision, socket.gethostname()), driver.Links()
    seen: object = None
    trouble, collecting = "", 0.0
    while True:
        now = time.monotonic()
        use.tick(now)
        links.tick()
        try:
            # Before users, since a problem with one root's files could delay those for long.
            if now >= collecting:
                collecting = now + old_roots.COLLECT_SECONDS
                old_roots.collect(volume, jail.keep_roots, jail.persistent, old_roots.named())
            signature = account_sync.signature(volume)
            if signature != seen:
                account_sync.synchronize(volume)
                # The value from before, because of others' writes meanwhile. Our own writes cost one more check.
                seen = signature
            trouble = ""
        except OSError as error:
            if str(error) != trouble:
                say(f"roots can't be looked after: {error}; trying again")
            trouble = str(error)
        time.sleep(POLL_SECONDS)  # inotify does not report changes of shared storage by other nodes.
