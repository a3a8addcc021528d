"""Checks of the names of `options`: further keys of a node's or a partition's line in slurm.conf."""

import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from components.config.values.validation import wrong


@dataclass(frozen=True, slots=True)
class LineKeys:
    """The keys of a line, each in one of four lists, and as Slurm writes it.

    Attributes:
        of: What the line is about, in words.
        at: Path of the configuration that the line is made from.
        typed: Key → the key of the configuration that sets it.
        owned: Key → why this program alone sets it.
        refused: Key → why nobody may set it.
        allowed: Keys that `options` sets.
        retired: Keys that older Slurms had, and files of sites still have → what is in their place.
    """

    of: str
    at: str
    typed: Mapping[str, str]
    owned: Mapping[str, str]
    refused: Mapping[str, str]
    allowed: Collection[str]
    retired: Mapping[str, str] = field(default_factory=dict)

    def check(self, name: str) -> str:
        """Return the key of an option as it was written.

        Raises:
            PydanticCustomError: Slurm has no such key, it is written in another case, or it is not free.
        """
        known = {key.lower(): key for key in (*self.typed, *self.owned, *self.refused, *self.allowed)}
        key = known.get(name.lower())
        successors = {old.lower(): successor for old, successor in self.retired.items()}
        if successor := successors.get(name.lower()):
            raise wrong(f"no {name}: Slurm 26.05 does not have it any more; {successor}")
        if key is None:
            close = difflib.get_close_matches(name.lower(), known, n=1)
            hint = f"; did you mean {known[close[0]]}?" if close else ""
            raise wrong(f"a key of {self.of} that Slurm 26.05 knows{hint}")
        if key in self.typed:
            raise wrong(f"{self.at}.{self.typed[key]} in its place, which sets {key}")
        if key in self.owned:
            raise wrong(f"another key: {key} is set by this program, {self.owned[key]}")
        if key in self.refused:
            raise wrong(f"no {key}: {self.refused[key]}")
        if key != name:
            raise wrong(f"{key}, as Slurm writes it")
        return name
