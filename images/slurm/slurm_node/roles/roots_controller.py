"""A login node's care for the shared volume: equal users in all roots, driver links, an end of old roots."""

import socket
import time

from slurm_node.accounts import account_sync
from slurm_node.jail import driver
from slurm_node.pod import paths, settings
from slurm_node.pod.log import say
from slurm_node.roots import old_roots

POLL_SECONDS = 1.0


def main() -> int:
    """Looks every second whether an account file changed in any root, and now and then for roots that may go.

    A program of its own, so that storage that hangs holds up nobody else.
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
            # Before users, whom trouble with one root's files could hold up for long.
            if now >= collecting:
                collecting = now + old_roots.COLLECT_SECONDS
                old_roots.collect(volume, jail.keep_roots, jail.persistent, old_roots.named())
            signature = account_sync.signature(volume)
            if signature != seen:
                account_sync.synchronize(volume)
                # As it was before, for what others wrote meanwhile: what was written here costs one more look.
                seen = signature
            trouble = ""
        except OSError as error:
            if str(error) != trouble:
                say(f"roots can't be looked after: {error}; trying again")
            trouble = str(error)
        time.sleep(POLL_SECONDS)
