"""What separate programs must agree on: names, reasons, paths, variables of pods, defaults of policies; each said once.

It is copied into each image and imports nothing but Python itself: constants, enums and frozen dataclasses. The jail's
own Python, 3.10 or newer, imports `names` and `paths`.
"""
