"""What a history of a run says: its records, what is wrong in them, and the verdict. Pure, except for the reading."""
