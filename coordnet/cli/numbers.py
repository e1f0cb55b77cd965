"""Numbers as they are typed in options."""

import math
import re

from typer import BadParameter

from coordnet import _checks


def number(text: object) -> float:
    """Return a number; ``1_000``, which Python reads too, is refused, since it may be a slip for ``1.000``."""
    try:
        if "_" not in str(text):
            return float(str(text))
    except ValueError:
        pass
    raise BadParameter(f"expected a number, found {text!r}")


def parse_bytes(text: str | None) -> int | None:
    """Return the bytes that a text such as ``2GiB``, ``500 MB`` or ``1e9`` names; None for None."""
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d+\.?\d*(?:[eE]\d+)?|\.\d+)\s*(?:([kKMGT]?)(i?)B)?\s*", text)
    number = float(match[1]) if match else math.nan
    if match is None or not 1 <= number < math.inf:
        raise _checks.wrong("memory", "a number of bytes such as 2GiB or 500MB", repr(text))
    power = " KMGT".index((match[2] or " ").upper())
    return int(number * (1024 if match[3] else 1000) ** power)
