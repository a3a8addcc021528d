"""Texts that users may have written a part of, for logs, terminals and reports."""


def printable(text: str) -> str:
    """Return a text as one line that acts on no terminal. Users choose names of processes, files and accounts.

    White space becomes a blank. Any other character that shows nothing stands there by its code.
    """
    if text.isprintable():
        return text
    line = " ".join(text.split())
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)
