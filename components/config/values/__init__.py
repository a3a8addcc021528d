"""Types of single values."""
