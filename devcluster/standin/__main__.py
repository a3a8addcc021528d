"""Starts the plugin: `pulumi-resource-kubernetes ENGINE_ADDRESS`."""

import sys

# httpx imports its own command line, and with it rich and click, where these are installed: a third of the plugin's
# time to start. pulumi starts it two or three times for each command.
sys.modules["httpx._main"] = None  # type: ignore[assignment]

from devcluster.standin import server  # noqa: E402  # after the line above

server.main(sys.argv[1:])
