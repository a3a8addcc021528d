"""Configuration of pods: resources, placement, and what else a site says of them."""
