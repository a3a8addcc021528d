"""Starts the plugin: `pulumi-resource-kubernetes ENGINE_ADDRESS`."""

import sys

# If rich and click are installed, httpx imports its own command line, a third of the plugin's start time. pulumi starts
# the plugin two or three times for each command.
sys.modules["httpx._main"] = None  # type: ignore[assignment]  # None refuses the import

from devcluster.standin import server  # noqa: E402  # after the line above

server.main(sys.argv[1:])
