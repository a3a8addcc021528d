"""Files that are made of the checks: their table, the schema of their verdicts, and thresholds for the image."""
