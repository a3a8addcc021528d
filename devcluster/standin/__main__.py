"""Starts the plugin: `pulumi-resource-kubernetes ENGINE_ADDRESS`."""

import sys

from devcluster.standin import server

server.main(sys.argv[1:])
