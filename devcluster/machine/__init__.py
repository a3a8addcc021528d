"""The machine's prerequisites: packages, the virtual environment, progress lines."""
