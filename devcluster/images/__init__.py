"""Container images: what goes into each, and how it is built."""
