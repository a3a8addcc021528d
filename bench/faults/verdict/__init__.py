"""The history of a run: its records, the troubles in them, and the verdict. Pure, except for the reading."""
