"""Character classes as every engine reads them."""

import re
from typing import Final

_PLAIN: Final = re.compile(r"[A-Za-z0-9._:@-]", re.ASCII)


def class_body(ranges: tuple[tuple[str, str], ...]) -> str:
    """Return what stands between the brackets of a class.

    A hyphen stands last, where all engines take it for itself; in a range, or between two characters, some read
    another range. Raises ``ValueError`` for what would need an escape, on which they do not agree.
    """
    for ends in ranges:
        if not all(map(_PLAIN.fullmatch, ends)) or ("-" in ends and ends != ("-", "-")):
            raise ValueError(f"a class cannot hold {ends!r}")
    plain = [first if first == last else f"{first}-{last}" for first, last in ranges if first != "-"]
    return "".join(plain) + "-" * (len(plain) < len(ranges))
