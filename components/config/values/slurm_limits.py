"""Limits of a QOS, an account or a user: sacctmgr's words, and one text for each meaning."""

import difflib
import math
import re
from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import AfterValidator

from components.config.values.quantities import SLURM_TIME, slurm_seconds
from components.config.values.validation import text_of, wrong
from contract import accounts
from contract.accounts import Field, Kind

MOST: Final = 4_294_967_293
"""The largest number that Slurm takes in 32 bits; those above have meanings."""
_RESOURCE: Final = re.compile(
    r"(cpu|mem|node|billing|energy|pages|vmem|(?:gres|license|bb|fs|ic)/[A-Za-z0-9_.:-]+)=(\d{1,15})([KMGTP]?)"
)
_KIB: Final = {"K": 1, "M": 1024, "G": 1024**2, "T": 1024**3, "P": 1024**4}
_WANT: Final = {
    Kind.COUNT: "a whole number; leave it out for no limit",
    Kind.MINUTES: "a Slurm time such as 7-00:00:00, 12:00:00 or 90 (minutes); leave it out for no limit",
    Kind.TRES: "trackable resources such as cpu=64,mem=256G,gres/gpu=8, each once",
}


def written(kind: Kind, text: str) -> str:
    """Return a limit as the operator compares it.

    Raises:
        ValueError: It is no limit of this kind; the message completes "got …; want …".
    """
    if kind is Kind.COUNT and re.fullmatch(r"\d{1,10}", text) and int(text) <= MOST:
        return str(int(text))
    if kind is Kind.MINUTES and SLURM_TIME.fullmatch(text) and text != "UNLIMITED":
        return str(math.ceil(slurm_seconds(text) / 60))
    if kind is Kind.TRES and (parts := [_RESOURCE.fullmatch(part) for part in text.split(",")]) and all(parts):
        amounts = dict(_amount(*part.groups()) for part in parts if part)
        if len(amounts) == len(parts) and "" not in amounts.values():
            return ",".join(f"{name}={amount}" for name, amount in sorted(amounts.items()))
    raise ValueError(_WANT[kind])


def _amount(name: str, number: str, unit: str) -> tuple[str, str]:
    """A resource's name and amount, memory in MiB; empty for a unit that it does not have."""
    if name in ("mem", "vmem"):
        return name, str(math.ceil(int(number) * _KIB[unit or "M"] / 1024))
    return name, "" if unit else str(int(number))


def _keys(fields: Mapping[str, Field], of: str) -> AfterValidator:
    known = {word.lower(): word for word, field in fields.items() if field.is_limit}

    def check(word: str) -> str:
        if word in fields and fields[word].is_limit:
            return word
        close = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.5)
        hint = f"did you mean {known[close[0]]}? " if close else ""
        raise wrong(f"a limit of {of} ({hint}known here: {', '.join(known.values())})")

    return AfterValidator(check)


QosLimit = Annotated[str, _keys(accounts.QOS, "a QOS")]
AssociationLimit = Annotated[str, _keys(accounts.USER, "an account or a user")]
LimitValue = Annotated[str, text_of("a number, a time or trackable resources")]
