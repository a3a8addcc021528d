"""What the machine needs before anything else: packages, the virtual environment, progress lines."""
