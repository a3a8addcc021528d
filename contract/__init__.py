"""Facts that separate programs share, each once: names, reasons, conditions, paths, pods' variables, policy defaults.

Each image has a copy. It holds constants, enums, frozen dataclasses and formulas, and imports only Python's standard
library. The jail's own Python, 3.10 or newer, imports `names` and `paths`.
"""
