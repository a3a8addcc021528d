"""An instance: one node with its processes, namespaces, links and programs."""
