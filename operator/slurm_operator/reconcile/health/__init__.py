"""The parts of a pass that concern the health of nodes and of their jobs."""
