"""Users of all roots: their account files, homes and limits."""
